// When sessions end.
#include "session_table_fixture.h"

namespace weir::session {
namespace {

TEST(SessionTable, ASessionEndsAfterItsIdleTimeAndUsePutsThatOff) {
  Bench t;
  auto used = t.open(), idle = t.open();
  t.env.advance(20min);
  EXPECT_TRUE(t.append(used, 0, {}).ok());
  t.env.advance(10min);
  EXPECT_FALSE(t.there(idle));
  EXPECT_TRUE(t.there(used));
  t.env.advance(20min);
  EXPECT_FALSE(t.there(used));
  EXPECT_EQ(t.over, (std::vector<std::string>{text(idle) + " fresh chat", text(used) + " lent chat"}));
  EXPECT_EQ(t.quota.taken(kMe), 0u);
  EXPECT_EQ(t.env.armed(), 0u);
}

TEST(SessionTable, ASessionEndsAfterItsLifetimeHoweverMuchItIsUsed) {
  Bench t;
  auto id = t.open();
  for (int i = 0; i < 24 * 3 - 1; ++i) {
    t.env.advance(20min);
    ASSERT_TRUE(t.append(id, uint32_t(i), {1}).ok());
  }
  t.env.advance(20min - 1ns);
  EXPECT_TRUE(t.there(id));
  t.env.advance(1ns);
  EXPECT_FALSE(t.there(id));
}

TEST(SessionTable, ALentSessionDoesNotExpireUntilItIsBack) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 100));
  auto lease = t.begin(id, 100);
  t.env.advance(48h);
  EXPECT_TRUE(t.there(id));
  EXPECT_EQ(lease->tokens[99], 99u);
  t.table.settle(lease->serial, {});
  t.env.advance(1ns);  // its lifetime has passed
  EXPECT_FALSE(t.there(id));
}

TEST(SessionTable, SessionsThatEndAtTheSameTimeEndInTheOrderInWhichTheyWereOpened) {
  Bench t;
  auto a = t.open(), b = t.open(), c = t.open();
  t.env.advance(30min);
  EXPECT_EQ(t.over,
            (std::vector<std::string>{text(a) + " fresh chat", text(b) + " fresh chat", text(c) + " fresh chat"}));
}

TEST(SessionTable, OfManySessionsThatEndAtOneMomentSomeEndInEachTurn) {
  SessionLimits limits;
  limits.per_tenant = 3000;
  Bench t(limits);
  for (int i = 0; i < 3000; ++i) t.open();
  std::vector<size_t> ended;
  std::function<void()> look = [&] {
    ended.push_back(t.over.size());
    if (ended.back() < 3000) t.env.at(t.env.now(), look);
  };
  t.env.at(t.env.now() + 30min, look);
  t.env.advance(30min);
  EXPECT_EQ(ended, (std::vector<size_t>{1024, 2048, 3000}));
}

TEST(SessionTable, OneTimerIsSetHoweverManySessionsThereAreAndForTheFirstToEnd) {
  Bench t;
  auto old = t.open();
  auto lease = t.begin(old, 0);
  t.env.advance(24h - 1min);
  auto young = t.open();
  EXPECT_EQ(t.env.armed(), 1u);
  t.table.settle(lease->serial, {});  // it has a minute left, and the other one half an hour
  EXPECT_EQ(t.env.armed(), 1u);
  t.env.advance(1min);
  EXPECT_FALSE(t.there(old));
  EXPECT_TRUE(t.there(young));
  EXPECT_EQ(t.env.armed(), 1u);
}

TEST(SessionTable, AForkPutsOffTheEndOfItsParent) {
  Bench t;
  auto id = t.open();
  t.env.advance(20min);
  ASSERT_TRUE(t.table.fork(kMe, id, 0));
  t.env.advance(20min);
  EXPECT_TRUE(t.there(id));
}

TEST(SessionTable, ATableThatEndsLeavesNoTimerAndGivesBackWhatItsSessionsHeld) {
  base::FakeEnv env;
  Quota quota{1};
  auto table = std::make_unique<SessionTable>(env, base::ShardId(0), 1, quota, SessionLimits{}, [](auto&&...) {});
  auto kept = table->open(kMe, {}).value(), closed = table->open(kMe, {}).value();
  for (auto id : {kept, closed}) {
    auto lease = table->begin(kMe, id, {0, Rewind::kNo, 3, 0});
    table->settle(lease->serial, {Outcome::Kind::kAppended, row(0, 3), {}, {}});
  }
  ASSERT_TRUE(table->begin(kMe, closed, {3, Rewind::kNo, 0, 0}));
  table->close(kMe, closed);
  EXPECT_EQ(quota.bytes(), 24u);
  EXPECT_EQ(quota.taken(kMe), 2u);
  table = nullptr;
  EXPECT_EQ(quota.bytes(), 0u);
  EXPECT_EQ(quota.taken(kMe), 0u);
  EXPECT_EQ(env.armed(), 0u);
}

}  // namespace
}  // namespace weir::session
