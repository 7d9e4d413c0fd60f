// Waiting, order, and how sequences end that do not come to their end: without credit, without blocks,
// cancelled, too late, failed, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

using testing::HasSubstr;

TEST(TokenScheduler, WhoLosesItsBlocksComputesThemAgainAndSaysNothingTwice) {
  SchedulerHarness harness(small(), 10);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 4; ++i) calls.push_back(&harness.call(numbers(6, 20 * i), 20));
  for (auto* call : calls) {
    call->generation->logprobs = {{2, 12}};
    call->generation->readouts = {{8, 11}};
    harness.send(*call);
  }
  harness.run();
  for (auto* call : calls) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_GT(harness.stats.tokens->preemptions.value(), 0u);
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, WithoutCreditASequenceIsLeftOutAndGoesOnLater) {
  SchedulerHarness harness(small());
  auto& slow = harness.call(numbers(6), 10);
  auto& fast = harness.call(numbers(6, 30), 10);
  slow.credit = 3;
  harness.send(slow), harness.send(fast);
  harness.run();
  EXPECT_EQ(harness.said[&slow].size(), 3u);
  EXPECT_EQ(harness.said[&fast], harness.expected(fast));
  EXPECT_GT(harness.used(), 0u);
  slow.credit.fetch_add(100);
  harness.run();
  EXPECT_EQ(harness.said[&slow], harness.expected(slow));
}

TEST(TokenScheduler, AParkedSequenceGivesItsBlocksToThoseThatRun) {
  SchedulerHarness harness(small(), 8);
  auto& slow = harness.call(numbers(12), 10);
  slow.priority = 1;
  slow.credit = 2;
  harness.send(slow);
  harness.run();
  auto& other = harness.call(numbers(20, 40), 10);
  harness.send(other);
  harness.run();
  EXPECT_EQ(harness.said[&other], harness.expected(other));
  slow.credit.fetch_add(100);
  harness.run();
  EXPECT_EQ(harness.said[&slow], harness.expected(slow));
}

TEST(TokenScheduler, TheMoreUrgentGoFirst) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness harness(policy);
  auto& first = harness.call(numbers(4), 2);
  auto& late = harness.call(numbers(4, 9), 2);
  auto& urgent = harness.call(numbers(4, 13), 2);
  late.priority = 3, urgent.priority = 1;
  harness.send(first);
  harness.step();
  harness.send(late), harness.send(urgent);
  while (!harness.last[&urgent]) ASSERT_TRUE(harness.step());
  EXPECT_TRUE(harness.said[&late].empty());
  harness.run();
  EXPECT_TRUE(harness.last[&late]);
}

TEST(TokenScheduler, ACancelledSequenceIsGoneBeforeTheNextStep) {
  SchedulerHarness harness(small());
  auto& call = harness.call(numbers(6), 100);
  auto& waiting = harness.call(numbers(6), 100);
  harness.send(call);
  harness.step();
  harness.send(waiting);
  call.cancelled = waiting.cancelled = true;
  EXPECT_FALSE(harness.step());
  EXPECT_EQ(harness.said[&call].back(), "CANCELLED: cancelled");
  EXPECT_EQ(harness.said[&waiting].back(), "CANCELLED: cancelled");
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, WhoHasEnoughEndsAsASuccess) {
  SchedulerHarness harness;
  auto& call = harness.call({1, 2, 3}, 100);
  harness.send(call);
  for (int i = 0; i < 3; ++i) harness.step();
  call.satisfied.store(true);
  call.cancelled.store(true);
  EXPECT_FALSE(harness.step());
  EXPECT_TRUE(harness.last[&call]);
  EXPECT_EQ(harness.dones[&call].completion_tokens, 3u);
  EXPECT_EQ(harness.used(), 0u);
  EXPECT_EQ(harness.stats.success.count.load(), 1u);
  EXPECT_EQ(harness.stats.fail.count.load(), 0u);
}

TEST(TokenScheduler, WhatWaitsTooLongLeaves) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness harness(policy);
  auto& first = harness.call(numbers(4), 50);
  auto& late = harness.call(numbers(4), 2);
  auto& bored = harness.call(numbers(4), 2);
  harness.send(first);
  harness.step();
  late.deadline = harness.now + 5ms;
  bored.queue_timeout = 3ms;
  harness.send(late), harness.send(bored);
  EXPECT_EQ(harness.scheduler->queue().leaves_at(), harness.now + 3ms);
  harness.run();
  EXPECT_THAT(harness.said[&late].back(), HasSubstr("DEADLINE_EXCEEDED"));
  EXPECT_THAT(harness.said[&bored].back(), HasSubstr("UNAVAILABLE"));
  EXPECT_TRUE(harness.last[&first]);
}

TEST(TokenScheduler, ACallLeavesAtItsDeadlineAndNotBefore) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness harness(policy);
  auto& runs = harness.call(numbers(4), 50);
  auto& waits = harness.call(numbers(4, 9), 1);
  runs.deadline = harness.now + 5ms, waits.queue_timeout = 3ms;
  harness.send(runs), harness.send(waits);
  for (int i = 0; i < 3; ++i) {  // of 1 ms each
    EXPECT_TRUE(harness.said[&waits].empty());
    ASSERT_TRUE(harness.step());
  }
  ASSERT_TRUE(harness.step());
  EXPECT_THAT(harness.said[&waits].at(0), HasSubstr("UNAVAILABLE: the request waited too long"));
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.said[&runs].size(), 5u);
  EXPECT_FALSE(harness.step());
  EXPECT_THAT(harness.said[&runs].at(5), HasSubstr("DEADLINE_EXCEEDED"));
}

TEST(TokenScheduler, AFailedStepFailsItsSequencesAndOnlyThem) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(6), 10);
  harness.send(first);
  harness.step();
  harness.engine.fail_at = 0;
  harness.step();
  EXPECT_THAT(harness.said[&first].back(), HasSubstr("INTERNAL: the engine broke"));
  auto& second = harness.call(numbers(6), 10);
  harness.send(second);
  harness.run();
  EXPECT_EQ(harness.said[&second], harness.expected(second));
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, ASequenceWithoutATokenFailsAlone) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(6), 10);
  auto& second = harness.call(numbers(6, 30), 10);
  harness.send(first), harness.send(second);
  harness.engine.wild_at = 1;
  harness.run();
  EXPECT_EQ(harness.said[&first].back(), "INTERNAL: the model gave no token at position 7");
  EXPECT_EQ(harness.said[&second], harness.expected(second));
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, WhatDoesNotFitIsRefusedWithWhatWasExpected) {
  SchedulerHarness harness(small(), 4);
  auto refused = [&](auto change, const char* text) {
    auto& call = harness.call(numbers(4));
    change(call);
    EXPECT_FALSE(harness.send(call));
    EXPECT_THAT(harness.said[&call].at(0), HasSubstr(text));
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
