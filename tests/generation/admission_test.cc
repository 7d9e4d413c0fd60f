// Admission: which sequences are let in beside those that run, and what holds up the others.
#include <gtest/gtest.h>

#include "scheduler_harness.h"

namespace weir::generation {
namespace {

uint64_t preemptions(const SchedulerHarness& desk) { return desk.stats.tokens->preemptions.value(); }

TEST(TokenAdmission, OneBlockForEachRunningSequenceIsLeftFree) {
  for (uint32_t spare : {0, 1}) {
    SchedulerHarness desk(small(4, 32), 6 + spare);
    auto& runs = desk.call(numbers(4), 5);        // one block, then another and a third
    auto& comes = desk.call(numbers(20, 30), 1);  // five blocks
    desk.send(runs);
    desk.step();
    ASSERT_EQ(desk.used(), 1u);
    desk.send(comes);
    desk.step();
    EXPECT_EQ(desk.scheduler->queue().size(), 1u - spare) << "with " << spare << " blocks to spare";
    desk.run();
    EXPECT_EQ(preemptions(desk), 0u);
    EXPECT_EQ(desk.said[&runs], desk.expected(runs));
    EXPECT_EQ(desk.said[&comes], desk.expected(comes));
  }
}

// Steps have 16 tokens. The first prompt fills as many steps as it can, and the second one holds no blocks meanwhile.
TEST(TokenAdmission, NobodyIsLetInWhilePromptsFillTheSteps) {
  struct Case {
    uint32_t prompt;
    size_t full_steps;
  };
  for (auto [prompt, full_steps] : {Case{31, 1}, Case{32, 2}, Case{40, 2}}) {
    SchedulerHarness desk(small());
    auto& first = desk.call(numbers(prompt), 3);
    auto& second = desk.call(numbers(20, 50), 3);
    desk.send(first), desk.send(second);
    for (size_t i = 0; i < full_steps; ++i) {
      ASSERT_TRUE(desk.step());
      EXPECT_EQ(desk.scheduler->active(), 1u) << prompt << " tokens, step " << i;
    }
    ASSERT_TRUE(desk.step());
    EXPECT_EQ(desk.scheduler->active(), 2u) << prompt << " tokens";
    desk.run();
    EXPECT_EQ(desk.said[&first], desk.expected(first));
    EXPECT_EQ(desk.said[&second], desk.expected(second));
  }
}

TEST(TokenAdmission, PositionsThatAreFedAgainFillTheStepsToo) {
  SchedulerHarness desk(small());
  auto& warm = desk.call(numbers(40), 1);
  desk.send(warm);
  desk.run();
  auto& scored = desk.call(numbers(40), 1);
  scored.generation->logprobs = {{0, 100}};
  auto& other = desk.call(numbers(20, 50), 1);
  desk.send(scored), desk.send(other);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(desk.step());
    EXPECT_EQ(desk.scheduler->active(), 1u) << "step " << i;
  }
  EXPECT_GE(desk.engine.fed, 40u + 32u) << "the prompt is fed again";
  desk.run();
  EXPECT_EQ(desk.said[&scored], desk.expected(scored));
  EXPECT_EQ(desk.said[&other], desk.expected(other));
}

}  // namespace
}  // namespace weir::generation
