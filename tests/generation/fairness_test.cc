// Tenants share slots and blocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "generation/holdings.h"
#include "msg/tenant.h"
#include "scheduler_harness.h"

namespace weir::generation {
namespace {

// Calls of one tenant, greedy, of the same size.
std::vector<msg::Call*> crowd(SchedulerHarness& desk, uint64_t tenant, size_t n) {
  std::vector<msg::Call*> out;
  for (size_t i = 0; i < n; ++i) {
    auto& call = desk.call({uint32_t(i % 50), 2, 3}, 2);
    call.tenant = tenant;
    desk.send(call);
    out.push_back(&call);
  }
  return out;
}
size_t ended(SchedulerHarness& desk, const std::vector<msg::Call*>& calls) {
  return size_t(std::count_if(calls.begin(), calls.end(), [&](auto* call) { return desk.last[call]; }));
}
TokenPolicy one_by_one() {
  TokenPolicy policy;
  policy.max_running = 1, policy.max_waiting = 2000;
  return policy;
}

TEST(TokenScheduler, AThousandCallsOfOneTenantDoNotStandBeforeTheFirstOfAnother) {
  SchedulerHarness desk(one_by_one());
  auto many = crowd(desk, 1, 1000);
  desk.step();
  auto few = crowd(desk, 2, 3);
  while (ended(desk, few) < 1) ASSERT_TRUE(desk.step());
  EXPECT_LE(ended(desk, many), 2u);
  while (ended(desk, few) < 3) ASSERT_TRUE(desk.step());
  EXPECT_LE(ended(desk, many), 4u);
  EXPECT_GE(ended(desk, many), 2u) << "they take turns";
}

TEST(TokenScheduler, ANewcomerDoesNotMakeUpForTheTimeInWhichItWasAway) {
  SchedulerHarness desk(one_by_one());
  auto first = crowd(desk, 1, 100), second = crowd(desk, 2, 100);
  while (ended(desk, first) < 30) ASSERT_TRUE(desk.step());
  auto newcomer = crowd(desk, 3, 100);
  size_t first_before = ended(desk, first), second_before = ended(desk, second);
  while (ended(desk, newcomer) < 10) ASSERT_TRUE(desk.step());
  EXPECT_NEAR(double(ended(desk, first) - first_before), 10, 2);
  EXPECT_NEAR(double(ended(desk, second) - second_before), 10, 2);
}

TEST(TokenScheduler, EndlesslyManyNewTenantsDoNotKeepAnOldOneWaiting) {
  SchedulerHarness desk(one_by_one());
  auto old = crowd(desk, 1, 10);
  uint64_t tenant = 2;
  size_t others = 0;
  std::vector<msg::Call*> waiting;
  while (ended(desk, old) < 10) {
    while (waiting.size() < 3) waiting.push_back(crowd(desk, tenant++, 1).front());
    ASSERT_TRUE(desk.step());
    others += std::erase_if(waiting, [&](auto* call) { return desk.last[call]; });
    ASSERT_LE(others, 100u) << "after " << ended(desk, old) << " of the old one's";
  }
}

TEST(TokenScheduler, AFullQueueGivesUpTheLastOfWhoHasMostInIt) {
  auto policy = one_by_one();
  policy.max_waiting = 4;
  SchedulerHarness desk(policy);
  auto many = crowd(desk, 1, 5);
  desk.step();
  auto few = crowd(desk, 2, 1);
  desk.step();
  EXPECT_TRUE(desk.last[many[4]]);
  EXPECT_EQ(desk.said[many[4]].at(0).substr(0, 18), "RESOURCE_EXHAUSTED");
  desk.run();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(desk.said[many[i]], desk.expected(*many[i]));
  EXPECT_EQ(desk.said[few[0]], desk.expected(*few[0]));
}

TokenPolicy eight() {
  TokenPolicy policy;
  policy.max_running = 8, policy.max_waiting = 2000;
  return policy;
}
std::vector<msg::Call*> long_ones(SchedulerHarness& desk, uint64_t tenant, size_t n, uint32_t tokens = 40) {
  std::vector<msg::Call*> out;
  for (size_t i = 0; i < n; ++i) {
    auto& call = desk.call({uint32_t(tenant), uint32_t(i % 50), 3}, tokens);
    call.tenant = tenant;
    desk.send(call);
    out.push_back(&call);
  }
  return out;
}

TEST(TokenScheduler, ACallWaitsForAStepAndNotForTheEndOfWhatAnotherTenantBegan) {
  SchedulerHarness desk(eight(), 256);
  auto many = long_ones(desk, 1, 30);
  desk.step();
  EXPECT_EQ(desk.scheduler->active(), 8u);
  auto few = long_ones(desk, 2, 3, 4);
  for (int i = 0; i < 5; ++i) desk.step();
  EXPECT_EQ(ended(desk, {few[0], few[1]}), 2u) << "a quarter of the slots is two";
  EXPECT_EQ(ended(desk, many), 0u);
  desk.run();
  for (auto* call : many) EXPECT_EQ(desk.said[call], desk.expected(*call)) << "what gave way says the same, once";
  for (auto* call : few) EXPECT_EQ(desk.said[call], desk.expected(*call));
  EXPECT_EQ(desk.used(), 0u);
}

TEST(TokenScheduler, ATenantAloneHasAllSlotsAndNobodyGivesWayToIt) {
  SchedulerHarness desk(eight(), 256);
  auto many = long_ones(desk, 1, 30);
  desk.run();
  EXPECT_EQ(desk.stats.tokens->preemptions.value(), 0u);
  EXPECT_EQ(ended(desk, many), 30u);
}

TEST(TokenScheduler, BlocksBeyondAShareAreGivenUpToo) {
  SchedulerHarness desk(eight(), 32);
  auto many = long_ones(desk, 1, 4, 100);  // of 7 blocks each at their end
  for (int i = 0; i < 70; ++i) desk.step();
  EXPECT_EQ(ended(desk, many), 0u);
  auto few = long_ones(desk, 2, 1, 4);
  for (int i = 0; i < 6; ++i) desk.step();
  EXPECT_EQ(ended(desk, few), 1u);
  desk.run();
  for (auto* call : many) EXPECT_EQ(desk.said[call], desk.expected(*call));
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
  TenantHoldings fair(100, 25), off(100, 100);
  fair.add(1, 25), off.add(1, 100);
  EXPECT_EQ(fair.gives_way(2, 1), std::nullopt);
  EXPECT_EQ(off.gives_way(2, 1), std::nullopt);
}

}  // namespace
}  // namespace weir::generation
