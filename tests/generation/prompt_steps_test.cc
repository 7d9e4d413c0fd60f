// Prompts that are spread over steps.
#include <gtest/gtest.h>

#include "generation/scheduler.h"
#include "scheduler_harness.h"

namespace weir::generation {
namespace {

// Alone a prompt is one step; beside others it is as many as the policy says, in pieces that are about as long.
TEST(PromptSteps, BesideDecodesAPromptIsSpreadOverSteps) {
  auto policy = small(4, 512);
  policy.prompt_steps = 4;
  SchedulerHarness harness(policy, 256);
  auto &first = harness.call(numbers(200), 40), &second = harness.call(numbers(200, 700), 4);
  harness.send(first);
  harness.step();
  EXPECT_EQ(harness.engine.fed, 200u);
  harness.send(second);
  std::vector<uint64_t> pieces;
  while (harness.said[&second].empty()) {
    const auto fed = harness.engine.fed;
    ASSERT_TRUE(harness.step());
    pieces.push_back(harness.engine.fed - fed - 1);
  }
  EXPECT_EQ(pieces, (std::vector<uint64_t>{50, 50, 50, 50}));
  harness.run();
  for (auto* call : {&first, &second}) EXPECT_EQ(harness.said[call], harness.expected(*call));
}

TEST(PromptSteps, PromptsThatAreSpreadShareAStep) {
  auto policy = small(4, 512);
  policy.prompt_steps = 4;
  SchedulerHarness harness(policy, 128);
  auto& first = harness.call(numbers(5), 60);
  harness.send(first);
  harness.step();
  std::vector<msg::Call*> others{&harness.call(numbers(160, 300), 2), &harness.call(numbers(9, 900), 2)};
  for (auto* call : others) harness.send(*call);
  const auto fed = harness.engine.fed;
  harness.step();
  EXPECT_EQ(harness.engine.fed - fed - 1, 160 / 4 + 9u);  // short ones are not cut into pieces
  harness.run();
  for (auto* call : others) EXPECT_EQ(harness.said[call], harness.expected(*call));
}

}  // namespace
}  // namespace weir::generation
