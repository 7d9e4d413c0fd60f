// The bytes of one tenant's sessions, over all shards.
#include <gtest/gtest.h>

#include "base/fake_env.h"
#include "session/session_table.h"

namespace weir::session {
namespace {

using base::Code;

constexpr Tenant kMe{0}, kOther{1};

struct Shards {
  base::FakeEnv env;
  Quota quota;
  SessionLimits limits;
  SessionTable first, second;

  explicit Shards(size_t tenants, base::MemoryLedger* ledger = nullptr)
      : quota(tenants, ledger),
        limits{.tenant_bytes = 1000, .total_bytes = 1500},
        first(env, base::ShardId(0), 2, quota, limits, [](auto&&...) {}),
        second(env, base::ShardId(1), 2, quota, limits, [](auto&&...) {}) {}

  static base::Status append(SessionTable& table, Tenant tenant, base::SessionId id, uint32_t offset, size_t tokens) {
    auto lease = table.begin(tenant, id, {offset, Append::Rewind::kNo, tokens, 0});
    if (!lease) return lease.error();
    table.settle(lease->serial, {Outcome::Kind::kAppended, std::vector<uint32_t>(tokens), {}, {}});
    return {};
  }
};

TEST(TenantBytes, OneTenantDoesNotSpendWhatIsMeantForAll) {
  Shards t(2);
  auto a = t.first.open(kMe, {}).value(), b = t.second.open(kMe, {}).value(), other = t.second.open(kOther, {}).value();
  EXPECT_TRUE(t.append(t.first, kMe, a, 0, 150).ok());
  EXPECT_TRUE(t.append(t.second, kMe, b, 0, 100).ok());
  auto refused = t.append(t.second, kMe, b, 100, 1);
  EXPECT_EQ(refused.code, Code::kResourceExhausted);
  EXPECT_EQ(refused.text, "all your sessions would have 1004 bytes (limit 1000)");
  EXPECT_NE(refused.details.find("SESSION_QUOTA"), std::string::npos);
  EXPECT_EQ(t.first.fork(kMe, a, 10).error().text, "all your sessions would have 1040 bytes (limit 1000)");
  EXPECT_TRUE(t.append(t.second, kOther, other, 0, 125).ok());
  EXPECT_EQ(t.append(t.second, kOther, other, 125, 1).text, "the memory for sessions is spent; try again later");
  t.first.close(kMe, a);
  EXPECT_EQ(t.quota.bytes(kMe), 400u);
  EXPECT_TRUE(t.append(t.second, kMe, b, 100, 1).ok());
}

TEST(TenantBytes, ArePartOfAllMemory) {
  base::MemoryLedger ledger(2000);
  {
    Shards t(1, &ledger);
    auto a = t.first.open(kMe, {}).value();
    EXPECT_TRUE(t.append(t.first, kMe, a, 0, 200).ok());
    EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 800u);
    EXPECT_EQ(t.append(t.first, kMe, a, 200, 51).text, "the memory for sessions is spent; try again later");
    ASSERT_TRUE(ledger.take(base::MemoryKind::kSlabs, 1100));
    EXPECT_FALSE(t.append(t.first, kMe, a, 200, 30).ok()) << "others have the rest";
    EXPECT_TRUE(t.append(t.first, kMe, a, 200, 20).ok());
  }
  EXPECT_EQ(ledger.held(base::MemoryKind::kSessions), 0u);
}

TEST(TenantBytes, ATenantAloneHasAll) {
  Shards t(1);
  auto a = t.first.open(kMe, {}).value();
  EXPECT_TRUE(t.append(t.first, kMe, a, 0, 375).ok());
  EXPECT_EQ(t.append(t.first, kMe, a, 375, 1).text, "the memory for sessions is spent; try again later");
}

}  // namespace
}  // namespace weir::session
