// The quota of all tenants together.
#include "session/byte_quota.h"

#include <gtest/gtest.h>

#include "msg/tenant.h"

namespace weir::session {
namespace {

using base::Code;

TEST(ByteQuota, NoTenantTakesWhatIsMeantForAll) {
  ByteQuota byte_quota(10'000, 15'000);
  ASSERT_TRUE(byte_quota.resize(1, 0, 10'000).ok());
  auto refused = byte_quota.resize(1, 0, 1);
  EXPECT_EQ(refused.code, Code::kResourceExhausted);
  EXPECT_EQ(refused.text, "all your sessions would hold 10001 bytes (limit 10000)");
  EXPECT_TRUE(byte_quota.resize(2, 0, 5000).ok());
  EXPECT_EQ(byte_quota.resize(2, 5000, 5001).text, "the memory for sessions is spent; try again later");
  EXPECT_EQ(byte_quota.held(), 15'000u);
  ASSERT_TRUE(byte_quota.resize(1, 10'000, 9000).ok());
  EXPECT_TRUE(byte_quota.resize(2, 5000, 6000).ok());
  EXPECT_EQ(byte_quota.held(1), 9000u);
  ASSERT_TRUE(byte_quota.resize(1, 9000, 0).ok());
  ASSERT_TRUE(byte_quota.resize(2, 6000, 0).ok());
  EXPECT_EQ(byte_quota.held(), 0u);
}

// Anybody may be refused: as many hosts as somebody has addresses.
TEST(ByteQuota, NothingIsKeptOfATenantThatHoldsNothing) {
  base::MemoryLedger ledger(1000);
  ByteQuota byte_quota(10'000, 15'000, &ledger);
  byte_quota.set_share({.percent = 50});
  ASSERT_TRUE(byte_quota.resize(1, 0, 400).ok());
  for (uint64_t tenant = 2; tenant < 100; ++tenant) {
    EXPECT_FALSE(byte_quota.resize(tenant, 0, 10'001).ok()) << "more than a tenant may have";
    EXPECT_FALSE(byte_quota.resize(tenant, 0, 9'000).ok()) << "more than there is";
    EXPECT_TRUE(byte_quota.resize(tenant, 0, 0).ok());
  }
  EXPECT_EQ(byte_quota.tenants(), 1u);
  ASSERT_TRUE(byte_quota.resize(1, 400, 0).ok());
  EXPECT_EQ(byte_quota.tenants(), 0u);
}

TEST(ByteQuota, WhatIsHeldIsPartOfAllMemory) {
  base::MemoryLedger ledger(20'000);
  ByteQuota byte_quota(100'000, 100'000, &ledger);
  ASSERT_TRUE(byte_quota.resize(1, 0, 9000).ok());
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 9000u);
  EXPECT_EQ(byte_quota.resize(1, 9000, 11'000).text, "the memory for sessions is spent; try again later")
      << "half is too much";
  EXPECT_EQ(byte_quota.held(), 9000u);
  ASSERT_TRUE(ledger.take(base::MemoryKind::kSlabs, 10'500));
  EXPECT_FALSE(byte_quota.resize(2, 0, 600).ok()) << "others have the rest";
  EXPECT_TRUE(byte_quota.resize(1, 9000, 8000).ok());
  EXPECT_TRUE(byte_quota.resize(2, 0, 600).ok());
  ASSERT_TRUE(byte_quota.resize(1, 8000, 0).ok());
  ASSERT_TRUE(byte_quota.resize(2, 600, 0).ok());
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 0u);
}

TEST(ByteQuota, TheLedgerIsChargedForASessionsOwnBytesHoweverTheRestIsRounded) {
  base::MemoryLedger ledger(1 << 20);
  ByteQuota byte_quota(1 << 20, 1 << 20, &ledger);
  {
    Reservation session(&byte_quota, 1);
    ASSERT_TRUE(session.hold({8000, 4000}).ok());
    ASSERT_TRUE(session.hold({8100, 4100}).ok());  // no step more of all, one more of its own
    EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 8192u);
    ASSERT_TRUE(session.hold({4000, 4000}).ok());
    EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 4096u);
  }
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 0u);
}

TEST(ByteQuota, WhoGrowsPaysTheDifferenceAlone) {
  base::MemoryLedger ledger(20'000);
  ByteQuota byte_quota(10'000, 15'000, &ledger);
  byte_quota.set_share({.percent = 25});
  ASSERT_TRUE(byte_quota.resize(1, 0, 4000).ok());
  ASSERT_TRUE(byte_quota.resize(1, 4000, 7500).ok()) << "half of all is out";
  EXPECT_EQ(byte_quota.held(), 7500u);
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 7500u);
  EXPECT_FALSE(byte_quota.resize(1, 7500, 7501).ok());
  EXPECT_TRUE(byte_quota.resize(1, 7500, 7500).ok()) << "it asks for nothing";
  ASSERT_TRUE(byte_quota.resize(2, 0, 1).ok());
  EXPECT_EQ(byte_quota.held(2), 1u);
  ASSERT_TRUE(byte_quota.resize(2, 1, 1800).ok());
  ASSERT_TRUE(byte_quota.resize(2, 1800, 2400).ok()) << "a share is 3750";
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 9900u);
  ASSERT_TRUE(byte_quota.resize(1, 7500, 6000).ok());
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 8400u);
}

TEST(ByteQuota, OnceMostIsHeldOneTenantHasItsShare) {
  ByteQuota byte_quota(10'000, 15'000);
  byte_quota.set_share({.percent = 25});
  ASSERT_TRUE(byte_quota.resize(1, 0, 7000).ok()) << "while there is room";
  auto refused = byte_quota.resize(1, 7000, 8000);
  EXPECT_EQ(refused.code, Code::kResourceExhausted);
  EXPECT_NE(refused.text.find("limits.client_share"), std::string::npos);
  EXPECT_TRUE(byte_quota.resize(2, 0, 3000).ok());
  EXPECT_FALSE(byte_quota.resize(2, 3000, 4000).ok());
  EXPECT_TRUE(byte_quota.resize(1, 7000, 0).ok());
  EXPECT_TRUE(byte_quota.resize(2, 3000, 4000).ok());
  const uint64_t many = msg::kManyClients | 1;
  EXPECT_TRUE(byte_quota.resize(many, 0, 9000).ok()) << "no share is one client's there";
  EXPECT_FALSE(byte_quota.resize(many, 9000, 11'001).ok()) << "but the whole is";
}

TEST(ByteQuota, WhoHoldsLessIsNeverRefused) {
  ByteQuota byte_quota(100, 100);
  ASSERT_TRUE(byte_quota.resize(1, 0, 100).ok());
  EXPECT_TRUE(byte_quota.resize(1, 100, 99).ok());
}

}  // namespace
}  // namespace weir::session
