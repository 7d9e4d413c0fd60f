#include "base/fair_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::base {
namespace {

TEST(FairShare, ATenantAloneIsServedInOrderAndNoFasterOneIsSlowed) {
  FairShare share;
  uint64_t first = share.came(0, 7, 10), second = share.came(0, 7, 10);
  EXPECT_LT(first, second);
  share.began(0, first, 10);
  share.began(0, second, 10);
  EXPECT_EQ(share.came(0, 8, 10), second + 10) << "who comes late is behind what has begun";
  EXPECT_EQ(share.came(0, 7, 10), second + 10);
  EXPECT_EQ(share.came(1, 7, 10), 0u) << "another priority, another queue";
}

TEST(FairShare, WhoGivesUpIsNotChargedAndWhoIsDoneIsForgotten) {
  FairShare share;
  std::vector<uint64_t> tags;
  for (int i = 0; i < 100; ++i) tags.push_back(share.came(0, 7, 10));
  for (; !tags.empty(); tags.pop_back()) share.left(0, 7, tags.back(), 10);
  EXPECT_EQ(share.came(0, 7, 10), 0u);
  for (uint64_t tenant = 100; tenant < 10'000; ++tenant) share.began(0, share.came(0, tenant, 1), 10);
  EXPECT_LT(share.tenants(), 200u);
}

TEST(FairShare, NewTenantsHaveNoMoreWorkBeforeAnOldCallThanItsTenantHas) {
  FairShare share;
  for (int i = 0; i < 10; ++i) (void)share.came(0, 1, 100);
  const uint64_t tenth = 900;
  uint64_t before = 0;
  for (uint64_t tenant = 2; tenant < 1000; ++tenant) {
    uint64_t tag = share.came(0, tenant, 10);
    if (tag > tenth) break;
    share.began(0, tag, 10), before += 10;
  }
  EXPECT_LE(before, tenth + 10);
}

}  // namespace
}  // namespace weir::base
