// Admission: which sequences are let in beside those that run, and what holds up the others.
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

uint64_t preemptions(const SchedulerHarness& harness) { return harness.stats.tokens->preemptions.value(); }

TEST(TokenAdmission, OneBlockForEachRunningSequenceIsLeftFree) {
  for (uint32_t spare : {0, 1}) {
    SchedulerHarness harness(small(4, 32), 6 + spare);
    auto& runs = harness.call(numbers(4), 5);        // one block, then another and a third
    auto& comes = harness.call(numbers(20, 30), 1);  // five blocks
    harness.send(runs);
    harness.step();
    ASSERT_EQ(harness.used(), 1u);
    harness.send(comes);
    harness.step();
    EXPECT_EQ(harness.scheduler->queue().size(), 1u - spare) << "with " << spare << " blocks to spare";
    harness.run();
    EXPECT_EQ(preemptions(harness), 0u);
    EXPECT_EQ(harness.said[&runs], harness.expected(runs));
    EXPECT_EQ(harness.said[&comes], harness.expected(comes));
  }
}

TEST(TokenAdmission, SessionsAtRestThatHoldAllBlocksKeepNobodyOut) {
  SchedulerHarness harness(small(4, 64), 64);
  for (uint32_t i = 0; i < 40; ++i) {
    auto& rests = harness.call(numbers(6, i), 2);  // two blocks
    rests.session = {1, i + 1};
    harness.send(rests);
    harness.run();
  }
  ASSERT_EQ(harness.used(), 64u);
  std::vector<msg::Call*> calls;
  for (uint32_t i = 0; i < 8; ++i) harness.send(*calls.emplace_back(&harness.call(numbers(4, 50 + i), 8)));
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.scheduler->active(), 8u);
  EXPECT_GT(harness.scheduler->memory().residents(), 20u) << "no more of them go than have to";
  harness.run();
  EXPECT_EQ(preemptions(harness), 0u);
  for (auto* call : calls) EXPECT_EQ(harness.said[call], harness.expected(*call));
}

// Steps have 16 tokens. Two prompts of 40 share them, and both are admitted with the first one.
TEST(TokenAdmission, APromptThatFillsTheStepsKeepsNobodyOut) {
  SchedulerHarness harness(small());
  auto& first = harness.call(numbers(40), 3);
  auto& second = harness.call(numbers(20, 50), 3);
  harness.send(first), harness.send(second);
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.scheduler->active(), 2u);
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.said[&second].size(), 1u) << "the shorter one is read first: 12 of 16 tokens, then 8";
  EXPECT_EQ(harness.said[&first].size(), 0u);
  harness.run();
  EXPECT_EQ(harness.said[&first], harness.expected(first));
  EXPECT_EQ(harness.said[&second], harness.expected(second));
}

TEST(TokenAdmission, PositionsThatAreFedAgainShareTheStepsToo) {
  SchedulerHarness harness(small());
  auto& warm = harness.call(numbers(40), 1);
  harness.send(warm);
  harness.run();
  auto fed = harness.engine.fed;
  auto& scored = harness.call(numbers(40), 1);
  scored.generation->logprobs = {{0, 100}};
  auto& other = harness.call(numbers(20, 50), 1);
  harness.send(scored), harness.send(other);
  ASSERT_TRUE(harness.step() && harness.step());
  EXPECT_TRUE(harness.last[&other]);
  EXPECT_FALSE(harness.last[&scored]);
  harness.run();
  EXPECT_GE(harness.engine.fed - fed, 40u + 20u) << "the prompt is fed again";
  EXPECT_EQ(harness.said[&scored], harness.expected(scored));
  EXPECT_EQ(harness.said[&other], harness.expected(other));
}

}  // namespace
}  // namespace weir::generation
