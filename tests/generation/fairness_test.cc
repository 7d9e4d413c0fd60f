// Tenants share slots and blocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "generation/holdings.h"
#include "msg/tenant.h"
#include "scheduler_harness.h"

namespace weir::generation {
namespace {

// Calls of one tenant, greedy, of the same size.
std::vector<msg::Call*> crowd(SchedulerHarness& harness, uint64_t tenant, size_t n) {
  std::vector<msg::Call*> out;
  for (size_t i = 0; i < n; ++i) {
    auto& call = harness.call({uint32_t(i % 50), 2, 3}, 2);
    call.tenant = tenant;
    harness.send(call);
    out.push_back(&call);
  }
  return out;
}
size_t ended(SchedulerHarness& harness, const std::vector<msg::Call*>& calls) {
  return size_t(std::count_if(calls.begin(), calls.end(), [&](auto* call) { return harness.last[call]; }));
}
TokenPolicy one_by_one() {
  TokenPolicy policy;
  policy.max_running = 1, policy.max_waiting = 2000;
  return policy;
}

TEST(TokenScheduler, AThousandCallsOfOneTenantDoNotStandBeforeTheFirstOfAnother) {
  SchedulerHarness harness(one_by_one());
  auto many = crowd(harness, 1, 1000);
  harness.step();
  auto few = crowd(harness, 2, 3);
  while (ended(harness, few) < 1) ASSERT_TRUE(harness.step());
  EXPECT_LE(ended(harness, many), 2u);
  while (ended(harness, few) < 3) ASSERT_TRUE(harness.step());
  EXPECT_LE(ended(harness, many), 4u);
  EXPECT_GE(ended(harness, many), 2u) << "they take turns";
}

TEST(TokenScheduler, ANewcomerDoesNotMakeUpForTheTimeInWhichItWasAway) {
  SchedulerHarness harness(one_by_one());
  auto first = crowd(harness, 1, 100), second = crowd(harness, 2, 100);
  while (ended(harness, first) < 30) ASSERT_TRUE(harness.step());
  auto newcomer = crowd(harness, 3, 100);
  size_t first_before = ended(harness, first), second_before = ended(harness, second);
  while (ended(harness, newcomer) < 10) ASSERT_TRUE(harness.step());
  EXPECT_NEAR(double(ended(harness, first) - first_before), 10, 2);
  EXPECT_NEAR(double(ended(harness, second) - second_before), 10, 2);
}

TEST(TokenScheduler, EndlesslyManyNewTenantsDoNotKeepAnOldOneWaiting) {
  SchedulerHarness harness(one_by_one());
  auto old = crowd(harness, 1, 10);
  uint64_t tenant = 2;
  size_t others = 0;
  std::vector<msg::Call*> waiting;
  while (ended(harness, old) < 10) {
    while (waiting.size() < 3) waiting.push_back(crowd(harness, tenant++, 1).front());
    ASSERT_TRUE(harness.step());
    others += std::erase_if(waiting, [&](auto* call) { return harness.last[call]; });
    ASSERT_LE(others, 100u) << "after " << ended(harness, old) << " of the old one's";
  }
}

TEST(TokenScheduler, AFullQueueGivesUpTheLastOfWhoHasMostInIt) {
  auto policy = one_by_one();
  policy.max_waiting = 4;
  SchedulerHarness harness(policy);
  auto many = crowd(harness, 1, 5);
  harness.step();
  auto few = crowd(harness, 2, 1);
  harness.step();
  EXPECT_TRUE(harness.last[many[4]]);
  EXPECT_EQ(harness.said[many[4]].at(0).substr(0, 18), "RESOURCE_EXHAUSTED");
  harness.run();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(harness.said[many[i]], harness.expected(*many[i]));
  EXPECT_EQ(harness.said[few[0]], harness.expected(*few[0]));
}

TokenPolicy eight() {
  TokenPolicy policy;
  policy.max_running = 8, policy.max_waiting = 2000;
  return policy;
}
std::vector<msg::Call*> long_ones(SchedulerHarness& harness, uint64_t tenant, size_t n, uint32_t tokens = 40) {
  std::vector<msg::Call*> out;
  for (size_t i = 0; i < n; ++i) {
    auto& call = harness.call({uint32_t(tenant), uint32_t(i % 50), 3}, tokens);
    call.tenant = tenant;
    harness.send(call);
    out.push_back(&call);
  }
  return out;
}

TEST(TokenScheduler, ACallWaitsForAStepAndNotForTheEndOfWhatAnotherTenantBegan) {
  SchedulerHarness harness(eight(), 256);
  auto many = long_ones(harness, 1, 30);
  harness.step();
  EXPECT_EQ(harness.scheduler->active(), 8u);
  auto few = long_ones(harness, 2, 3, 4);
  for (int i = 0; i < 5; ++i) harness.step();
  EXPECT_EQ(ended(harness, {few[0], few[1]}), 2u) << "a quarter of the slots is two";
  EXPECT_EQ(ended(harness, many), 0u);
  harness.run();
  for (auto* call : many) EXPECT_EQ(harness.said[call], harness.expected(*call)) << "what gave way says the same, once";
  for (auto* call : few) EXPECT_EQ(harness.said[call], harness.expected(*call));
  EXPECT_EQ(harness.used(), 0u);
}

TEST(TokenScheduler, ATenantAloneHasAllSlotsAndNobodyGivesWayToIt) {
  SchedulerHarness harness(eight(), 256);
  auto many = long_ones(harness, 1, 30);
  harness.run();
  EXPECT_EQ(harness.stats.tokens->preemptions.value(), 0u);
  EXPECT_EQ(ended(harness, many), 30u);
}

TEST(TokenScheduler, BlocksBeyondAShareAreGivenUpToo) {
  SchedulerHarness harness(eight(), 32);
  auto many = long_ones(harness, 1, 4, 100);  // of 7 blocks each at their end
  for (int i = 0; i < 70; ++i) harness.step();
  EXPECT_EQ(ended(harness, many), 0u);
  auto few = long_ones(harness, 2, 1, 4);
  for (int i = 0; i < 6; ++i) harness.step();
  EXPECT_EQ(ended(harness, few), 1u);
  harness.run();
  for (auto* call : many) EXPECT_EQ(harness.said[call], harness.expected(*call));
}

TEST(TenantHoldings, WhoHasMostGivesWayIfThatIsMoreThanAShare) {
  TenantHoldings holdings(100, 25);
  holdings.add(1, 20), holdings.add(2, 26), holdings.add(3, 30), holdings.add(1, 4);
  EXPECT_EQ(holdings.gives_way(4, 1), std::optional<uint64_t>(3));
  EXPECT_EQ(holdings.gives_way(1, 1), std::optional<uint64_t>(3));
  EXPECT_EQ(holdings.gives_way(1, 2), std::nullopt) << "it would have more than a share itself";
  EXPECT_EQ(holdings.gives_way(2, 1), std::nullopt);
  EXPECT_EQ(holdings.gives_way(4, 26), std::nullopt);
  TenantHoldings with_many(100, 25);
  with_many.add(msg::kManyClients | 1, 90);
  EXPECT_EQ(with_many.gives_way(2, 1), std::nullopt) << "nothing of it is one client's";
  TenantHoldings few(3, 25);
  few.add(1, 2);
  EXPECT_EQ(few.gives_way(2, 1), std::optional<uint64_t>(1)) << "a share is one at least";
  TenantHoldings fair(100, 25), off(100, 100);
  fair.add(1, 25), off.add(1, 100);
  EXPECT_EQ(fair.gives_way(2, 1), std::nullopt);
  EXPECT_EQ(off.gives_way(2, 1), std::nullopt);
}

}  // namespace
}  // namespace weir::generation
