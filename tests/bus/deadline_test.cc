#include "bus_fixture.h"
#include "support/heap_in_use.h"

namespace weir::bus {
namespace {

using base::Code;

TEST(Bus, ADeadlineThatHasPassedIsRefused) {
  Bench t;
  auto* call = t.call("a");
  call->deadline = t.env.now();
  EXPECT_EQ(t.refused(call).code, Code::kDeadlineExceeded);
  EXPECT_EQ(t.served().stats.expired, 1u);
}

TEST(Bus, AtItsDeadlineTheSinkHearsAndTheLateAnswerFreesTheCallSilently) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  t.env.advance(9ms);
  EXPECT_EQ(t.sink.heard, Heard{});
  t.env.advance(1ms);
  EXPECT_EQ(t.sink.heard, Heard{"a:DEADLINE_EXCEEDED"});
  EXPECT_TRUE(call->cancelled);
  EXPECT_EQ(t.digits().pokes, 1);
  EXPECT_EQ(t.bus.in_flight(), 1u);
  t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard.size(), 1u);
  EXPECT_EQ(t.bus.in_flight(), 0u);
  EXPECT_EQ(t.served().stats.expired, 1u);
}

TEST(Bus, TheEarliestDeadlineIsMetWhateverTheOrderOfArrival) {
  Bench t;
  std::vector<msg::Call*> calls{t.sent("late", 30ms), t.sent("early", 10ms), t.sent("middle", 20ms)};
  EXPECT_EQ(t.env.armed(), 1u);
  t.env.advance(25ms);
  EXPECT_EQ(t.sink.heard, (Heard{"early:DEADLINE_EXCEEDED", "middle:DEADLINE_EXCEEDED"}));
  for (auto* call : calls) t.answer(call);
  t.bus.turn();
  EXPECT_EQ(t.sink.heard.back(), "late:last");
}

TEST(Bus, ADeadlineOfAFinishedCallDoesNotHitTheCallThatReusesItsMemory) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  t.answer(call);
  t.bus.turn();
  auto* again = t.sent("b");
  ASSERT_EQ(again, call);
  t.env.advance(1s);
  EXPECT_EQ(t.sink.heard, Heard{"a:last"});
  t.answer(again);
  t.bus.turn();
}

TEST(Bus, ASinkMaySubmitFromItsDeadline) {
  Bench t;
  auto* call = t.sent("a", 10ms);
  msg::Call* next = nullptr;
  t.sink.then = [&] {
    if (!next) next = t.sent("b", 5ms);
  };
  t.env.advance(10ms);
  t.env.advance(5ms);
  EXPECT_EQ(t.sink.heard, (Heard{"a:DEADLINE_EXCEEDED", "b:DEADLINE_EXCEEDED"}));
  t.answer(call), t.answer(next);
  t.bus.turn();
}

TEST(Bus, ManyFinishedCallsWithFarDeadlinesLeaveOneTimerAndNoPile) {
  Bench t;
  for (int i = 0; i < 10'000; ++i) {
    t.answer(t.sent("a", 60s));
    t.bus.turn();
  }
  EXPECT_EQ(t.env.armed(), 1u);
  t.env.advance(61s);
  EXPECT_EQ(t.env.armed(), 0u);
  EXPECT_EQ(t.served().stats.expired, 0u);
}

TEST(Bus, DeadlinesKeepTheirOrderWhenTheStaleOnesAreSweptOut) {
  Bench t;
  std::vector<msg::Call*> live;
  for (int i = 0; i < 500; ++i) {
    auto* call = t.sent(std::to_string(i), base::Duration((i * 7919) % 500 * 1ms + 1ms));
    if (i % 100 == 0) live.push_back(call);
    if (i % 100 != 0) t.answer(call);
    t.bus.turn();
  }
  t.sink.heard.clear();
  t.env.advance(1s);
  EXPECT_EQ(t.sink.heard, (Heard{"0:DEADLINE_EXCEEDED", "400:DEADLINE_EXCEEDED", "300:DEADLINE_EXCEEDED",
                                 "200:DEADLINE_EXCEEDED", "100:DEADLINE_EXCEEDED"}));
  for (auto* call : live) t.answer(call);
  t.bus.turn();
}

TEST(Bus, DeadlinesOfCallsThatAreBackTakeNoMemoryWhileOthersWait) {
  Bench t;
  std::vector<msg::Call*> waiting{t.sent("a", 1000s), t.sent("b", 1000s)};
  auto pass = [&](int count) {
    for (int i = 0; i < count; ++i) {
      t.answer(t.sent("x", 100s));
      t.bus.turn();
    }
    t.sink.heard = {};
  };
  pass(1000);
  const size_t before = support::heap_in_use();
  for (int i = 0; i < 40; ++i) pass(500);
  EXPECT_LT(support::heap_in_use(), before + 100'000) << "20,000 of them take some 500 KB";
  for (auto* call : waiting) t.answer(call);
  t.bus.turn();
}

}  // namespace
}  // namespace weir::bus
