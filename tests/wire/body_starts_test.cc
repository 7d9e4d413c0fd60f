// How bodies begin, as HTTP/1 and HTTP/2 hand it over.
#include "wire/body_starts.h"

#include <deque>
#include <string>
#include <vector>

#include "h1_fixture.h"
#include "support/h2_client.h"
#include "support/h2_service.h"

namespace weir::wire {
namespace {

constexpr size_t kEach = 6;

// Takes what was kept of each Exchange as it ends.
struct Taken {
  explicit Taken(FakeIntake& intake, BodyStarts& starts) {
    intake.on_closed = [this, &starts](Exchange& x) {
      auto start = starts.take(x);
      all.push_back(start ? start->request + '|' + start->answer : "nothing");
    };
  }
  std::vector<std::string> all;
};

// Answers in two pieces.
void answer(Exchange& x) {
  x.head(with_status(200));
  x.body(Bytes::copy_of("ans"));
  x.body(Bytes::copy_of("wers!"));
  x.end();
}

struct H1Starts : Conn {
  H1Starts() {
    env.starts = &starts;
    h1 = make_h1(env, wire, peer);
    intake.on_whole = answer;
  }
  BodyStarts starts{kEach, nullptr};
  Taken taken{intake, starts};
};

TEST(BodyStarts, Http1HasTheFirstBytesOfBoth) {
  H1Starts c;
  c.talk(post("question"));
  c.talk(post("q"));
  c.talk(get());
  EXPECT_EQ(c.taken.all, (std::vector<std::string>{"questi|answer", "q|answer", "|answer"}));
  EXPECT_EQ(c.starts.open(), 0u);
}

TEST(BodyStarts, ABodyThatStreamsIsKeptAsItComes) {
  H1Starts c;
  Heard heard;
  c.stream(heard);
  c.feed("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nqu");
  c.feed("est");
  c.feed("ion");
  answer(*c.intake.open.at(0));
  c.out();
  EXPECT_EQ(c.taken.all, (std::vector<std::string>{"questi|answer"}));
}

TEST(BodyStarts, OfARequestThatNeverBecameOneNothingIsKept) {
  H1Starts c;
  EXPECT_NE(c.talk("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").find("400"), std::string::npos);
  EXPECT_EQ(c.starts.open(), 0u);
  EXPECT_TRUE(c.taken.all.empty());
}

TEST(BodyStarts, AnAnswerToHeadHasNoBody) {
  H1Starts c;
  c.intake.on_begin = [](Exchange& x) {
    answer(x);
    return Plan{BodyPlan::kIgnore};
  };
  c.talk("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(c.taken.all, (std::vector<std::string>{"|"}));
}

TEST(BodyStarts, Http2HasTheFirstBytesOfEachStream) {
  test::Server s;
  BodyStarts starts(kEach, nullptr);
  Taken taken(s.intake, starts);
  s.restart({s.intake, s.slabs, s.limits, nullptr, nullptr, nullptr, &starts});
  s.intake.on_whole = answer;
  test::Client whole;
  whole.request(test::kPost, "question");
  whole.request(test::kPost, "other");
  whole.talk(s);
  EXPECT_EQ(taken.all, (std::vector<std::string>{"questi|answer", "other|answer"}));
}

TEST(BodyStarts, Http2KeepsStreamsToo) {
  test::Server s;
  BodyStarts starts(kEach, nullptr);
  Taken taken(s.intake, starts);
  s.restart({s.intake, s.slabs, s.limits, nullptr, nullptr, nullptr, &starts});
  test::Streamed streamed;
  streamed.serve(s);
  test::Client c;
  c.request(test::kPost, "question");
  c.talk(s);
  answer(*streamed.order.at(0));
  c.talk(s);
  EXPECT_EQ(taken.all, (std::vector<std::string>{"questi|answer"}));
}

// --- bounds ----------------------------------------------------------------------------------------------------------

TEST(BodyStarts, RequestsThatStayOpenHaveABoundTogether) {
  constexpr size_t kLarge = 64 << 10;
  base::MemoryLedger ledger(1 << 30);
  BodyStarts starts(kLarge, &ledger);
  std::deque<support::FakeExchange> open;
  const auto piece = Bytes::copy_of(std::string(2 * kLarge, 'x'));
  for (int i = 0; i < 1000; ++i) starts.sent(open.emplace_back("POST", "/"), piece);
  EXPECT_EQ(starts.open(), BodyStarts::kMostOpen / (2 * kLarge));
  EXPECT_LE(ledger.held(), BodyStarts::kMostOpen);
  EXPECT_FALSE(starts.take(open.back())) << "there was no room for it";
  auto first = starts.take(open.front());
  ASSERT_TRUE(first);
  EXPECT_EQ(first->answer.size(), kLarge);
  EXPECT_EQ(first->charge.bytes(), kLarge);
}

TEST(BodyStarts, WhereMemoryIsShortNothingIsKept) {
  base::MemoryLedger ledger(2 * kEach - 1);
  BodyStarts starts(kEach, &ledger);
  support::FakeExchange x("POST", "/", "question");
  starts.sent(x, Bytes::copy_of("answer"));
  EXPECT_FALSE(starts.take(x));
  EXPECT_EQ(ledger.held(), 0u);
}

}  // namespace
}  // namespace weir::wire
