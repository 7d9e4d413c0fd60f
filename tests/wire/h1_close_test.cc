// Answers that end their connection while a request is still being taken: nothing behind them is read, whatever comes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "h1_fixture.h"
#include "support/split_feed.h"

namespace weir::wire {
namespace {

void answer_in_begin_unless_absent(Conn& c) {
  c.intake.on_begin = [](Exchange& x) {
    x.respond(x.request().target == "/absent" ? 404 : 200, "", Bytes::copy_of("now"));
    return Plan{BodyPlan::kIgnore};
  };
}

// Heads whose answer is the connection's last.
const std::vector<std::string> kClosing{
    "GET / HTTP/1.0\r\n\r\n",
    "HEAD / HTTP/1.0\r\n\r\n",
    "OPTIONS * HTTP/1.0\r\n\r\n",
    "GET /absent HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "HEAD /absent HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\n",
    "POST /absent HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    "POST /absent HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n",
};
const std::vector<std::string> kBehind{
    "\r\n", "x", "abc", get("/never"), "3\r\nabc\r\n0\r\n\r\n", std::string(999, 'x')};

TEST(H1, BytesBehindAnAnswerThatClosesInsideBeginAreDropped) {
  for (const std::string& head : kClosing) {
    for (const std::string& behind : kBehind) {
      support::for_each_split(head + behind, [&](size_t size) {
        Conn c;
        answer_in_begin_unless_absent(c);
        support::feed_in_pieces(head + behind, size, [&](auto bytes) { c.h1->feed(bytes); });
        EXPECT_EQ(c.intake.begun, 1u) << head << behind;
        EXPECT_NE(c.out().find("connection: close\r\n"), std::string::npos) << head;
        EXPECT_TRUE(c.h1->finished()) << head;
        EXPECT_EQ(c.talk(behind), "") << head;
        c.wait(1s);
        c.h1->eof();
        c.h1->closed();
        EXPECT_EQ(c.intake.closes, 1u) << head;
      });
    }
  }
}

TEST(H1, PipelinedRequestsThatMeetADrainAreAnsweredUpToTheOneThatCloses) {
  for (Drain step : {Drain::kAnnounce, Drain::kRefuse}) {
    Conn c;
    answer_in_begin_unless_absent(c);
    c.talk(get("/before"));
    c.feed("GET / HT");  // a head that has begun to come is still answered
    c.h1->drain(step);
    std::string out = c.talk("TP/1.1\r\nHost: a\r\n\r\n" + get("/2") + "\r\n");
    EXPECT_EQ(out, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nnow");
    EXPECT_EQ(c.intake.begun, 2u);
    EXPECT_TRUE(c.h1->finished());
  }
}

TEST(H1, AResetInsideBeginTakesNothingBehindIt) {
  for (std::string head : {get(), post("abc"), post("")}) {
    for (bool headed : {false, true}) {
      Conn c;
      c.intake.on_begin = [headed](Exchange& x) {
        if (headed) x.head({});
        x.reset(Reset::kInternal);
        return Plan{BodyPlan::kStream};
      };
      c.feed(head + get("/never"));
      c.out();
      EXPECT_TRUE(c.h1->finished());
      EXPECT_EQ(c.intake.begun, 1u);
    }
  }
}

// The one that closes waits behind another, whose answer comes while a body is being read.
TEST(H1, AnAnswerThatWaitedAndClosesEndsTheBodyThatIsBeingRead) {
  for (const char* fields : {"Connection: close\r\n", "Expect: 100-continue\r\n"}) {
    Conn c;
    Exchange* first = nullptr;
    c.intake.on_begin = [](Exchange& x) {
      if (x.request().target != "/p") return Plan{};
      x.respond(200, "", {});
      return Plan{BodyPlan::kIgnore};
    };
    c.intake.on_whole = [&](Exchange& x) { first = &x; };
    std::string request = post("abc", fields);
    c.feed(get("/1") + request.substr(0, request.size() - 2));
    first->respond(200, "", {});
    std::string out = c.talk("bc" + get("/never"));
    EXPECT_TRUE(out.ends_with("connection: close\r\n\r\n")) << out;
    EXPECT_TRUE(c.h1->finished());
    EXPECT_EQ(c.intake.begun, 2u);
  }
}

}  // namespace
}  // namespace weir::wire
