// The bytes of one tenant's sessions, over all shards.
#include <gtest/gtest.h>

#include "base/clients.h"
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

// Clients that show no secret are one tenant; none of them has all that there is.
TEST(ClientShare, OneClientOfATenantLeavesSessionsToTheOthers) {
  base::Clients clients;
  auto greedy = clients.enter("127.6.6.6", base::Client::Limited::kYes);
  auto other = clients.enter("127.0.0.1", base::Client::Limited::kYes);
  auto proxy = clients.enter("unix", base::Client::Limited::kNo);
  base::FakeEnv env;
  Quota quota(1);
  SessionTable table(env, base::ShardId(0), 1, quota, {.per_tenant = 100, .children = 1000}, [](auto&&...) {});
  std::vector<base::SessionId> had;
  for (int i = 0; i < 50; ++i) had.push_back(table.open(kMe, {}, greedy).value());
  auto refused = table.open(kMe, {}, greedy);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_NE(refused.error().text.find("limits.client_share"), std::string::npos);
  EXPECT_EQ(table.fork(kMe, had[0], 0).error().code, Code::kResourceExhausted) << "a fork is its session's client's";
  for (int i = 0; i < 25; ++i) EXPECT_TRUE(table.open(kMe, {}, other));
  EXPECT_FALSE(table.open(kMe, {}, other));
  EXPECT_TRUE(table.open(kMe, {}, proxy));
  for (int i = 0; i < 26; ++i) table.close(kMe, had[size_t(i)]);
  EXPECT_EQ(greedy->held(base::Held::kSessions), 24u);
  EXPECT_TRUE(table.open(kMe, {}, greedy));
}

TEST(ClientShare, NorOneClientTheirBytes) {
  base::Clients clients;
  auto greedy = clients.enter("127.6.6.6", base::Client::Limited::kYes);
  auto other = clients.enter("127.0.0.1", base::Client::Limited::kYes);
  Shards t(1);
  auto a = t.first.open(kMe, {}, greedy).value(), b = t.first.open(kMe, {}, other).value();
  EXPECT_TRUE(t.append(t.first, kMe, a, 0, 187).ok()) << "748 of 1500";
  EXPECT_EQ(t.append(t.first, kMe, a, 187, 10).text,
            "the sessions of your host would have 788 bytes, and more than half of all is in use: limits.client_share "
            "(limit 375)");
  EXPECT_TRUE(t.append(t.first, kMe, b, 0, 60).ok());
  EXPECT_TRUE(t.append(t.first, kMe, b, 60, 30).ok());
  EXPECT_EQ(other->held(base::Held::kSessionBytes), 360u);
  t.first.close(kMe, a);
  EXPECT_EQ(greedy->held(base::Held::kSessionBytes), 0u);
}

TEST(ClientShare, AForkNeedsRoomForItsImagesToo) {
  base::Clients clients;
  auto greedy = clients.enter("127.6.6.6", base::Client::Limited::kYes);
  Shards t(1);
  auto a = t.first.open(kMe, {}, greedy).value();
  const msg::Image image{base::Bytes::copy_of(std::string(500, 'x')), "image/png", 0, 4};
  auto lease = t.first.begin(kMe, a, {0, Append::Rewind::kNo, 5, 500});
  ASSERT_TRUE(lease);
  t.first.settle(lease->serial, {Outcome::Kind::kAppended, {1, 2, 3, 4, 5}, {image}, {}});
  EXPECT_TRUE(t.first.fork(kMe, a, 0)) << "in front of the image";
  EXPECT_EQ(t.first.fork(kMe, a, 5).error().text,
            "the sessions of your host would have 1040 bytes, and more than half of all is in use: limits.client_share "
            "(limit 375)");
  EXPECT_EQ(greedy->held(base::Held::kSessionBytes), 520u);
}

TEST(TenantBytes, ATenantAloneHasAll) {
  Shards t(1);
  auto a = t.first.open(kMe, {}).value();
  EXPECT_TRUE(t.append(t.first, kMe, a, 0, 375).ok());
  EXPECT_EQ(t.append(t.first, kMe, a, 375, 1).text, "the memory for sessions is spent; try again later");
}

}  // namespace
}  // namespace weir::session
