// Priorities of models of tokens for which none are configured.
#include <gtest/gtest.h>

#include "msg/priority.h"
#include "scheduler_harness.h"

namespace weir::generation {
namespace {

TEST(TokenPriority, LevelsThatNobodyConfiguredAreThere) {
  auto policy = small();
  policy.max_running = 1;
  SchedulerHarness harness(policy);
  harness.spec.batching.priority_levels = harness.spec.batching.default_priority = 0;
  auto& first = harness.call(numbers(4), 2);
  auto& batch = harness.call(numbers(4, 9), 2);
  auto& middle = harness.call(numbers(4, 9), 2);
  auto& plain = harness.call(numbers(4, 13), 2);
  auto& unknown = harness.call(numbers(4, 15), 2);
  batch.priority = 11, middle.priority = 6, unknown.priority = 12;
  harness.send(first);
  harness.step();
  for (auto* call : {&batch, &middle, &plain, &unknown}) harness.send(*call);
  std::vector<const msg::Call*> order;
  for (bool ran = true; ran;) {
    ran = harness.step();
    for (const auto* call : {&batch, &middle, &plain, &unknown})
      if (harness.last[call] && std::find(order.begin(), order.end(), call) == order.end()) order.push_back(call);
  }
  EXPECT_EQ(order, (std::vector<const msg::Call*>{&plain, &unknown, &middle, &batch}))
      << "who names no level, or none that there is, is as urgent as the most urgent";
}

TEST(TokenPriority, AnUrgentCallTakesTheSlotOfTheLeastUrgentAndYoungest) {
  auto policy = small();
  policy.max_running = 3;
  SchedulerHarness harness(policy);
  std::vector<msg::Call*> running;
  for (uint32_t i = 0; i < 3; ++i) {
    running.push_back(&harness.call(numbers(4, 10 * i), 20));
    running[i]->priority = i == 0 ? 2 : 3;
    harness.send(*running[i]);
  }
  auto& equal = harness.call(numbers(4, 40), 2);
  auto& urgent = harness.call(numbers(4, 50), 2);
  equal.priority = 3, urgent.priority = 1;
  harness.step();
  harness.send(equal);
  harness.step();
  EXPECT_EQ(harness.stats.tokens->preemptions.value(), 0u);
  harness.send(urgent);
  for (int i = 0; i < 3; ++i) harness.step();
  EXPECT_TRUE(harness.last[&urgent]) << "it does not wait until another ends";
  EXPECT_EQ(harness.stats.tokens->preemptions.value(), 1u);
  while (!harness.last[running[1]]) ASSERT_TRUE(harness.step());
  EXPECT_TRUE(harness.last[running[0]]);
  EXPECT_FALSE(harness.last[running[2]]) << "the youngest has given way";
  harness.run();
  for (auto* call : {running[0], running[1], running[2], &equal, &urgent})
    EXPECT_EQ(harness.said[call], harness.expected(*call)) << "what gave way says the same, once";
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenPriority, LevelsAreTheModelsWhereItHasSome) {
  msg::ModelSpec spec = token_spec(100);
  auto levels = [&](uint32_t count, uint32_t usual) {
    spec.batching.priority_levels = count, spec.batching.default_priority = usual;
    auto l = msg::levels(spec);
    return std::pair(l.count, l.usual);
  };
  EXPECT_EQ(levels(0, 0), std::pair(11u, 1u));
  EXPECT_EQ(levels(4, 3), std::pair(4u, 3u));
  EXPECT_EQ(levels(4, 0), std::pair(4u, 2u));
  EXPECT_EQ(levels(1, 0), std::pair(1u, 1u));
  spec.text = nullptr;
  EXPECT_EQ(levels(0, 0), std::pair(1u, 1u));
}

}  // namespace
}  // namespace weir::generation
