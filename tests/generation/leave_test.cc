// Waiting, order, and how sequences end that do not come to their end: without credit, without blocks,
// cancelled, too late, failed, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using testing::HasSubstr;

TEST(TokenScheduler, WhoLosesItsBlocksComputesThemAgainAndSaysNothingTwice) {
  SchedulerHarness desk(small(), 10);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 4; ++i) calls.push_back(&desk.call(numbers(6, 20 * i), 20));
  for (auto* call : calls) {
    call->generation->logprobs = {{2, 12}};
    call->generation->readouts = {{8, 11}};
    desk.send(*call);
  }
  desk.run();
  for (auto* call : calls) EXPECT_EQ(desk.said[call], desk.expected(*call));
  EXPECT_GT(desk.stats.tokens->preemptions.value(), 0u);
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, WithoutCreditASequenceIsLeftOutAndGoesOnLater) {
  SchedulerHarness desk(small());
  auto& slow = desk.call(numbers(6), 10);
  auto& fast = desk.call(numbers(6, 30), 10);
  slow.credit = 3;
  desk.send(slow), desk.send(fast);
  desk.run();
  EXPECT_EQ(desk.said[&slow].size(), 3u);
  EXPECT_EQ(desk.said[&fast], desk.expected(fast));
  EXPECT_GT(desk.used(), 0u);
  slow.credit.fetch_add(100);
  desk.run();
  EXPECT_EQ(desk.said[&slow], desk.expected(slow));
}

TEST(TokenScheduler, AParkedSequenceGivesItsBlocksToThoseThatRun) {
  SchedulerHarness desk(small(), 8);
  auto& slow = desk.call(numbers(12), 10);
  slow.priority = 1;
  slow.credit = 2;
  desk.send(slow);
  desk.run();
  auto& other = desk.call(numbers(20, 40), 10);
  desk.send(other);
  desk.run();
  EXPECT_EQ(desk.said[&other], desk.expected(other));
  slow.credit.fetch_add(100);
  desk.run();
  EXPECT_EQ(desk.said[&slow], desk.expected(slow));
}

TEST(TokenScheduler, TheMoreUrgentGoFirst) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness desk(policy);
  auto& first = desk.call(numbers(4), 2);
  auto& late = desk.call(numbers(4, 9), 2);
  auto& urgent = desk.call(numbers(4, 13), 2);
  late.priority = 3, urgent.priority = 1;
  desk.send(first);
  desk.step();
  desk.send(late), desk.send(urgent);
  while (!desk.last[&urgent]) ASSERT_TRUE(desk.step());
  EXPECT_TRUE(desk.said[&late].empty());
  desk.run();
  EXPECT_TRUE(desk.last[&late]);
}

TEST(TokenScheduler, ACancelledSequenceIsGoneBeforeTheNextStep) {
  SchedulerHarness desk(small());
  auto& call = desk.call(numbers(6), 100);
  auto& waiting = desk.call(numbers(6), 100);
  desk.send(call);
  desk.step();
  desk.send(waiting);
  call.cancelled = waiting.cancelled = true;
  EXPECT_FALSE(desk.step());
  EXPECT_EQ(desk.said[&call].back(), "CANCELLED: cancelled");
  EXPECT_EQ(desk.said[&waiting].back(), "CANCELLED: cancelled");
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, WhoHasEnoughEndsAsASuccess) {
  SchedulerHarness desk;
  auto& call = desk.call({1, 2, 3}, 100);
  desk.send(call);
  for (int i = 0; i < 3; ++i) desk.step();
  call.satisfied.store(true);
  call.cancelled.store(true);
  EXPECT_FALSE(desk.step());
  EXPECT_TRUE(desk.last[&call]);
  EXPECT_EQ(desk.dones[&call].completion_tokens, 3u);
  EXPECT_EQ(desk.used(), 0u);
  EXPECT_EQ(desk.stats.success.count.load(), 1u);
  EXPECT_EQ(desk.stats.fail.count.load(), 0u);
}

TEST(TokenScheduler, WhatWaitsTooLongLeaves) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness desk(policy);
  auto& first = desk.call(numbers(4), 50);
  auto& late = desk.call(numbers(4), 2);
  auto& bored = desk.call(numbers(4), 2);
  desk.send(first);
  desk.step();
  late.deadline = desk.now + 5ms;
  bored.queue_timeout = 3ms;
  desk.send(late), desk.send(bored);
  EXPECT_EQ(desk.scheduler->queue().leaves_at(), desk.now + 3ms);
  desk.run();
  EXPECT_THAT(desk.said[&late].back(), HasSubstr("DEADLINE_EXCEEDED"));
  EXPECT_THAT(desk.said[&bored].back(), HasSubstr("UNAVAILABLE"));
  EXPECT_TRUE(desk.last[&first]);
}

TEST(TokenScheduler, AFailedStepFailsItsSequencesAndOnlyThem) {
  SchedulerHarness desk(small());
  auto& first = desk.call(numbers(6), 10);
  desk.send(first);
  desk.step();
  desk.engine.fail_at = 0;
  desk.step();
  EXPECT_THAT(desk.said[&first].back(), HasSubstr("INTERNAL: the engine broke"));
  auto& second = desk.call(numbers(6), 10);
  desk.send(second);
  desk.run();
  EXPECT_EQ(desk.said[&second], desk.expected(second));
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, ASequenceWithoutATokenFailsAlone) {
  SchedulerHarness desk(small());
  auto& first = desk.call(numbers(6), 10);
  auto& second = desk.call(numbers(6, 30), 10);
  desk.send(first), desk.send(second);
  desk.engine.wild_at = 1;
  desk.run();
  EXPECT_EQ(desk.said[&first].back(), "INTERNAL: the model gave no token at position 7");
  EXPECT_EQ(desk.said[&second], desk.expected(second));
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, WhatDoesNotFitIsRefusedWithWhatWasExpected) {
  SchedulerHarness desk(small(), 4);
  auto refused = [&](auto change, const char* text) {
    auto& call = desk.call(numbers(4));
    change(call);
    EXPECT_FALSE(desk.send(call));
    EXPECT_THAT(desk.said[&call].at(0), HasSubstr(text));
  };
  refused([](auto& c) { c.generation->append = {5, 97}; }, "INVALID_ARGUMENT: token 1 is id 97; ids are below 97");
  refused([](auto& c) { c.generation->append.clear(); }, "the sequence is empty");
  refused([](auto& c) { c.generation = nullptr; }, "INVALID_ARGUMENT: model 'talker' makes tokens");
  refused([](auto& c) { c.generation->append = numbers(17); }, "OUT_OF_RANGE: the sequence has 17 tokens, but");
  refused([](auto& c) { c.generation->aim = msg::Aim::kRelease; }, "no session");
  refused([](auto& c) { c.generation->images.push_back({{}, "", 0, 9}); }, "image 0 has positions [0, 9)");
}

}  // namespace
}  // namespace weir::generation
