// HTTP/1.1 bodies that wait for memory.
#include "h1_fixture.h"

namespace weir::wire {
namespace {

// A connection whose bodies stand in line with others.
struct Shared : Conn {
  BodyMemory::Need need;
  BodyMemory memory{wire.env, need, {}};
  Shared() {
    env.bodies = &memory;
    h1 = make_h1(env, wire, peer);
  }
  ~Shared() { h1.reset(); }
};

TEST(H1, WhoWaitsForASlabInVainIsToldToTryAgain) {
  Shared c;
  c.slabs.empty = true;
  c.feed(post("hello"));
  EXPECT_EQ(c.memory.waiting(), 1u);
  c.wait(2s);
  std::string answer = c.out();
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 503");
  EXPECT_NE(answer.find("retry-after: 1"), std::string::npos);
  EXPECT_NE(answer.find("limits.memory_wait"), std::string::npos);
  EXPECT_TRUE(c.h1->finished());
  EXPECT_EQ(c.memory.waiting(), 0u);
  EXPECT_EQ(c.intake.closes, 1u);
}

TEST(H1, ABodyThatWaitsGoesOnWhenMemoryComes) {
  Shared c;
  c.slabs.empty = true;
  c.feed(post("hello"));
  c.slabs.empty = false;
  int asked = c.wire.output_calls;
  c.memory.slabs_freed();
  EXPECT_GT(c.wire.output_calls, asked) << "it asks for its tick";
  c.h1->tick(c.wire.now());
  EXPECT_EQ(c.out(), kOk);
  EXPECT_EQ(c.memory.waiting(), 0u);
}

TEST(H1, AnAnswerWhileTheBodyWaitsForMemoryEndsTheWait) {
  Shared c;
  for (bool answer_is_taken : {true, false}) {
    c.slabs.empty = true;
    c.feed(post("hello") + get("/next"));
    EXPECT_EQ(c.memory.waiting(), 1u);
    c.intake.open.front()->respond(200, "text/plain", Bytes::constant("ok"));
    const std::string taken = answer_is_taken ? c.out() : "";
    c.h1->tick(c.wire.now());
    EXPECT_EQ(taken + c.out(), kOk + kOk);
    EXPECT_EQ(c.memory.waiting(), 0u);
    EXPECT_TRUE(c.h1->wants_read());
    c.slabs.empty = false;
    c.h1->tick(c.wire.now());
  }
  EXPECT_EQ(c.intake.wholes, 2u) << "those without a body; nothing is handed on that is answered already";
}

TEST(H1, ASilentBodyGivesWayToWhoWaits) {
  Shared c;
  struct Other final : BodyMemory::Body {
    void on_memory_free() override {}
    void on_memory_lost(BodyMemory::Loss) override {}
    uint64_t memory_held() const override { return 0; }
  } other;
  c.feed("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nab");
  c.wait(5s);
  EXPECT_EQ(c.out(), "");
  c.memory.wait(other, nullptr, 10);
  c.wait(1s);
  EXPECT_EQ(c.out().substr(0, 12), "HTTP/1.1 408");
  c.memory.leave(other);
}

// A quiet connection gives its parser back, but not in the middle of a body, of which nobody wants the rest.
TEST(H1, ABodyThatIsDiscardedSlowlyStillEndsWhereItEnds) {
  const std::string framings[] = {"Content-Length: 8\r\n\r\nfour", "Transfer-Encoding: chunked\r\n\r\n8\r\nfour"};
  for (const auto& begin : framings) {
    Conn c;
    c.intake.on_begin = [](Exchange& x) {
      x.respond(200, "text/plain", Bytes::constant("ok"));
      return Plan{BodyPlan::kIgnore};
    };
    EXPECT_EQ(c.talk("POST /p HTTP/1.1\r\nHost: a\r\n" + begin), kOk);
    c.wait(4s);
    const bool chunked = begin.starts_with("T");
    EXPECT_EQ(c.talk(std::string("GET ") + (chunked ? "\r\n0\r\n\r\n" : "") + get("/next")), kOk);
    ASSERT_EQ(c.intake.seen.size(), 2u);
    EXPECT_EQ(c.intake.seen[1].target, "/next");
  }
}

}  // namespace
}  // namespace weir::wire
