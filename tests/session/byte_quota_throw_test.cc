// A quota charges nothing where there is no memory to note it.
#include <gtest/gtest.h>

#include "sched/failing_new.h"
#include "session/byte_quota.h"

namespace weir::session {
namespace {

TEST(ByteQuotaThrow, WhatIsNotNotedIsNotCharged) {
  base::MemoryLedger ledger(1000);
  ByteQuota byte_quota(400, 500, &ledger);
  int failed = 0;
  for (int64_t allocation = 0; byte_quota.tenants() == 0; ++allocation) {
    ASSERT_LT(allocation, 100);
    left = allocation, counted = true;
    try {
      EXPECT_TRUE(byte_quota.resize(1, 0, 400).ok());
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    counted = false, left = -1;
    if (byte_quota.tenants() > 0) break;
    EXPECT_EQ(byte_quota.held(), 0u);
    EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 0u);
  }
  EXPECT_GT(failed, 0);
  EXPECT_EQ(byte_quota.held(1), 400u);
}

}  // namespace
}  // namespace weir::session
