#include "session/session_table.h"

#include "session_table_fixture.h"

namespace weir::session {
namespace {

using base::Code;

TEST(SessionTable, TokensGrowByWhatEachGenerateLeaves) {
  Bench t;
  auto id = t.open();
  EXPECT_EQ(t.tokens(id), row(0, 0));
  EXPECT_TRUE(t.append(id, 0, row(0, 5)).ok());
  auto lease = t.begin(id, 5);
  ASSERT_TRUE(lease);
  EXPECT_EQ(std::vector<uint32_t>(lease->tokens.begin(), lease->tokens.end()), row(0, 5));
  t.table.settle(lease->serial, {Outcome::Kind::kAppended, row(5, 2), {}, row(7, 3)});
  EXPECT_EQ(t.tokens(id), row(0, 10));
  EXPECT_EQ(t.table.bytes(), 40u);
}

TEST(SessionTable, ADriftedOffsetIsRefusedWithTheLengthAndChangesNothing) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 300));
  for (auto [offset, rewind] : {std::pair(299u, Rewind::kNo), {301u, Rewind::kNo}, {301u, Rewind::kYes}}) {
    auto status = t.append(id, offset, row(0, 1), {}, rewind);
    EXPECT_EQ(status.code, Code::kFailedPrecondition);
    EXPECT_NE(status.text.find("has 300 tokens"), std::string::npos) << status.text;
    EXPECT_EQ(status.text.find("(truncating would cut it)") != std::string::npos, offset < 300);
    EXPECT_NE(status.details.find("OFFSET_MISMATCH"), std::string::npos);
    EXPECT_NE(status.details.find("\x0a\x06length\x12\x03"
                                  "300"),
              std::string::npos);
  }
  EXPECT_EQ(t.tokens(id), row(0, 300));
  EXPECT_TRUE(t.append(id, 300, {}, {}, Rewind::kYes).ok());  // equality is always fine
}

TEST(SessionTable, ARewindHappensWhenTheGenerateEndsWellAndNotBefore) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 10));
  auto lease = t.begin(id, 4, Rewind::kYes);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->tokens.size(), 4u);
  EXPECT_EQ(t.tokens(id), row(0, 10));
  t.table.settle(lease->serial, {});
  EXPECT_EQ(t.tokens(id), row(0, 10));
  EXPECT_TRUE(t.append(id, 4, {77}, {}, Rewind::kYes).ok());
  EXPECT_EQ(t.tokens(id), (std::vector<uint32_t>{0, 1, 2, 3, 77}));
}

TEST(SessionTable, ALentSessionTakesNoSecondGenerateButMayBeReadAndForked) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 4));
  auto lease = t.begin(id, 4);
  EXPECT_EQ(t.begin(id, 4).error().code, Code::kAborted);
  EXPECT_EQ(t.tokens(id), row(0, 4));
  auto fork = t.table.fork(kMe, id, 2);
  ASSERT_TRUE(fork);
  EXPECT_EQ(t.tokens(*fork), row(0, 2));
  t.table.settle(lease->serial, {});
  EXPECT_TRUE(t.begin(id, 4));
}

TEST(SessionTable, ImagesAreCutByNeitherRewindNorFork) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 30), {image(5, 10), image(10, 14), image(20, 25)});
  EXPECT_EQ(t.table.bytes(), 30 * 4 + 30u);
  for (uint32_t at : {6u, 9u, 11u, 13u, 21u, 24u}) {
    EXPECT_EQ(t.begin(id, at, Rewind::kYes).error().code, Code::kFailedPrecondition) << at;
    EXPECT_EQ(t.table.fork(kMe, id, at).error().code, Code::kFailedPrecondition) << at;
  }
  EXPECT_EQ(t.table.fork(kMe, id, 12).error().text,
            "at_position 12 is inside the image at [10, 14); the session has 30 tokens");
  const std::pair<uint32_t, size_t> whole[]{{0, 0}, {5, 0}, {10, 1}, {14, 2}, {20, 2}, {25, 3}, {30, 3}};
  for (auto [at, images] : whole) {
    auto fork = t.table.fork(kMe, id, at);
    ASSERT_TRUE(fork) << at;
    auto lease = t.begin(*fork, at);
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->images.size(), images) << at;
    EXPECT_EQ(lease->tokens.size(), at);
  }
  EXPECT_EQ(t.table.fork(kMe, id, 31).error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(t.append(id, 10, row(10, 3), {}, Rewind::kYes).ok());
  EXPECT_EQ(t.begin(id, 13)->images.size(), 1u);
}

TEST(SessionTable, UnknownForeignClosedAndExpiredSessionsAreToldApartByNobody) {
  Bench t;
  auto expired = t.open();
  t.env.advance(31min);
  auto mine = t.open(), foreign = t.open(kOther), closed = t.open();
  t.table.close(kMe, closed);
  base::Status first = t.begin(SessionId{1, 2}, 0).error();
  EXPECT_EQ(first.code, Code::kNotFound);
  for (auto id : {foreign, closed, expired}) {
    EXPECT_EQ(t.begin(id, 0).error(), first);
    EXPECT_EQ(t.begin(id, 7).error(), first) << "whatever its length";
    EXPECT_EQ(t.table.fork(kMe, id, 0).error(), first);
    EXPECT_EQ(t.table.dump(kMe, id).error(), first);
    t.table.close(kMe, id);
  }
  EXPECT_TRUE(t.table.dump(kOther, foreign));
  EXPECT_TRUE(t.there(mine));
}

TEST(SessionTable, AClosedSessionThatIsLentKeepsItsMemoryUntilItIsBack) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 100));
  auto lease = t.begin(id, 100);
  EXPECT_EQ(t.table.close(kMe, id), lease->serial);
  EXPECT_EQ(t.table.close(kMe, id), std::nullopt);
  EXPECT_FALSE(t.there(id));
  EXPECT_EQ(t.table.sessions(), 1u);
  EXPECT_EQ(lease->tokens[99], 99u);
  EXPECT_TRUE(t.over.empty());
  t.table.settle(lease->serial, {Outcome::Kind::kAppended, {1}, {}, {}});
  EXPECT_EQ(t.table.sessions(), 0u);
  EXPECT_EQ(t.table.bytes(), 0u);
  EXPECT_EQ(t.over.size(), 1u);
  EXPECT_EQ(t.quota.taken(kMe), 0u);
}

TEST(SessionTable, QuotasHoldAndComeBack) {
  SessionLimits limits;
  limits.per_tenant = 5, limits.depth = 3, limits.children = 2;
  Bench t(limits);
  auto root = t.open();
  auto a = t.table.fork(kMe, root, 0).value();
  auto b = t.table.fork(kMe, root, 0).value();
  EXPECT_EQ(t.table.fork(kMe, root, 0).error().code, Code::kResourceExhausted);  // children
  t.table.close(kMe, b);
  EXPECT_TRUE(t.table.fork(kMe, root, 0));
  auto deep = t.table.fork(kMe, t.table.fork(kMe, a, 0).value(), 0).value();
  EXPECT_EQ(t.table.open(kMe, {}).error().code, Code::kResourceExhausted);  // sessions
  t.table.close(kMe, root);
  EXPECT_EQ(t.table.fork(kMe, deep, 0).error().code, Code::kResourceExhausted);  // depth
  EXPECT_TRUE(t.table.open(kMe, {}));
  EXPECT_TRUE(t.table.open(kOther, {}));
}

TEST(SessionTable, BytesOfTokensAndImagesAreBounded) {
  SessionLimits limits;
  limits.bytes = 1000;
  Bench t(limits);
  auto id = t.open();
  EXPECT_TRUE(t.append(id, 0, row(0, 200), {image(3, 7, 100)}).ok());
  EXPECT_EQ(t.table.begin(kMe, id, {200, Rewind::kNo, 26, 0}).error().code, Code::kResourceExhausted);
  EXPECT_EQ(t.table.begin(kMe, id, {200, Rewind::kNo, 0, 101}).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(t.append(id, 3, row(0, 247), {}, Rewind::kYes).ok());  // without the image there is room
}

TEST(SessionTable, BytesOfAllSessionsAreBoundedOverAllShards) {
  SessionLimits limits;
  limits.total_bytes = 1000;
  Bench t(limits);
  SessionTable other(t.env, base::ShardId(3), 5, t.quota, limits, [](auto&&...) {});
  auto a = t.open();
  EXPECT_TRUE(t.append(a, 0, row(0, 150), {image(3, 7, 100)}).ok());
  auto b = other.open(kOther, {}).value();
  EXPECT_TRUE(other.begin(kOther, b, {0, Rewind::kNo, 75, 0}));
  EXPECT_EQ(other.begin(kOther, other.open(kOther, {}).value(), {0, Rewind::kNo, 76, 0}).error().code,
            Code::kResourceExhausted);
  EXPECT_EQ(t.begin(a, 150, Rewind::kNo, 76).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(t.append(a, 2, row(0, 148), {}, Rewind::kYes).ok());  // no more than it has
  EXPECT_TRUE(t.table.fork(kMe, a, 90));
  EXPECT_EQ(t.table.fork(kMe, a, 90).error().code, Code::kResourceExhausted);
  t.table.close(kMe, a);
  EXPECT_EQ(t.quota.bytes(), 360u);
}

TEST(SessionTable, WhatASessionHoldsAlreadyIsNotAskedForAgain) {
  SessionLimits limits;
  limits.total_bytes = 1000;
  Bench t(limits);
  auto a = t.open(), b = t.open();
  t.append(a, 0, row(0, 150));
  EXPECT_EQ(t.begin(a, 150, Rewind::kNo, 101).error().code, Code::kResourceExhausted);
  auto first = t.begin(a, 150, Rewind::kNo, 100), second = t.begin(b, 0, Rewind::kNo, 100);
  ASSERT_TRUE(first && second) << "each of them has room, while the other has not grown";
  t.table.settle(first->serial, {Outcome::Kind::kAppended, row(0, 100), {}, {}});
  t.table.settle(second->serial, {Outcome::Kind::kAppended, row(0, 100), {}, {}});
  EXPECT_EQ(t.quota.bytes(), 1400u);
  EXPECT_EQ(t.table.bytes(), 1400u);
  EXPECT_TRUE(t.append(a, 250, {}).ok());
}

TEST(SessionTable, AFewTokensBehindManyMoveOnlyThemselves) {
  Bench t;
  auto id = t.open();
  t.append(id, 0, row(0, 200'000));
  const uint32_t* at = nullptr;
  int moved = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    auto lease = t.begin(id, 200'000 + 10 * i, Rewind::kNo, 10);
    ASSERT_TRUE(lease);
    moved += std::exchange(at, lease->tokens.data()) != lease->tokens.data();
    t.table.settle(lease->serial, {Outcome::Kind::kAppended, row(0, 10), {}, {}});
  }
  EXPECT_LE(moved, 2);
}

TEST(SessionTable, AModelThatWasLoadedAgainIsAnotherOne) {
  auto spec = std::make_shared<const msg::TextSpec>();
  msg::ModelSpec served;
  served.text = spec;
  SessionModel model{"chat", "1", spec};
  EXPECT_TRUE(model.is(served));
  served.text = std::make_shared<const msg::TextSpec>();
  EXPECT_FALSE(model.is(served));
  served.text = nullptr;
  spec = nullptr;
  EXPECT_FALSE(model.is(served));
}

TEST(SessionTable, SettlingSaysWhetherTheSessionIsStillHere) {
  Bench t;
  auto id = t.open();
  auto lease = t.begin(id, 0);
  EXPECT_TRUE(t.table.settle(lease->serial, {Outcome::Kind::kAppended, row(1, 2), {}, {}}));
  lease = t.begin(id, 2);
  t.table.close(kMe, id);
  EXPECT_FALSE(t.table.settle(lease->serial, {Outcome::Kind::kAppended, row(3, 1), {}, {}}));
}

TEST(SessionTable, ASessionOfAnotherNodeIsAdoptedWhereThereIsRoomForIt) {
  SessionLimits limits;
  limits.per_tenant = 1;
  Bench t(limits);
  SessionState state;
  state.tokens = row(1, 3);
  const SessionId theirs{7, 9};
  const auto mine = t.open();
  EXPECT_EQ(t.table.adopt(kMe, theirs, {"chat", "1", {}}, SessionState(state)).code, base::Code::kResourceExhausted);
  EXPECT_FALSE(t.there(theirs));
  EXPECT_TRUE(t.there(mine));
  t.table.close(kMe, mine);
  EXPECT_TRUE(t.table.adopt(kMe, theirs, {"chat", "1", {}}, SessionState(state)).ok());
  EXPECT_EQ(t.tokens(theirs), row(1, 3));
  state.tokens = row(1, 4);
  EXPECT_TRUE(t.table.adopt(kMe, theirs, {"chat", "1", {}}, std::move(state)).ok()) << "in the place of what was here";
  EXPECT_EQ(t.tokens(theirs), row(1, 4));
}

TEST(SessionTable, ASessionOfAnotherNodeNeedsRoomForItsBytes) {
  SessionLimits limits;
  limits.total_bytes = 100;
  Bench t(limits);
  SessionState state;
  state.tokens = row(1, 15);
  ASSERT_TRUE(t.table.adopt(kMe, {7, 9}, {"chat", "1", {}}, SessionState(state)).ok());
  EXPECT_EQ(t.table.adopt(kMe, {8, 9}, {"chat", "1", {}}, SessionState(state)).code, base::Code::kResourceExhausted);
  EXPECT_EQ(t.quota.bytes(), 60u);
  EXPECT_TRUE(t.table.adopt(kMe, {7, 9}, {"chat", "1", {}}, SessionState(state)).ok()) << "what it had makes room";
  EXPECT_EQ(t.quota.bytes(), 60u);
}

// The node was fenced, and has the session again; a fork of before is still there and ends.
TEST(SessionTable, ForksOfBeforeASessionWasAdoptedDoNotCountForIt) {
  base::FakeEnv env;
  Quota quota{2};
  uint64_t epoch = 1;
  Keeping keeping;
  keeping.epoch = [&] { return epoch; };
  SessionLimits limits;
  limits.children = 2;
  SessionTable table(
      env, base::ShardId(2), 5, quota, limits, [](auto&&...) {}, keeping);
  const SessionId id = table.open(kMe, {"chat", "1", {}}).value(), fork = table.fork(kMe, id, 0).value();
  ++epoch;
  ASSERT_TRUE(table.adopt(kMe, id, {"chat", "1", {}}, {}).ok());
  table.forget(kMe, fork);
  const auto newer = table.fork(kMe, id, 0);
  ASSERT_TRUE(newer) << newer.error().text;
  ASSERT_TRUE(table.fork(kMe, id, 0));
  EXPECT_FALSE(table.fork(kMe, id, 0));
  table.close(kMe, *newer);
  EXPECT_TRUE(table.fork(kMe, id, 0));
}

TEST(SessionTable, ASessionOfAnotherClientOfTheTenantIsNoneAtAll) {
  Bench t;
  const Tenant here{0, 7}, there{0, 9};
  auto id = t.open(here);
  EXPECT_EQ(t.table.dump(there, id).error(), no_such_session());
  EXPECT_EQ(t.table.fork(there, id, 0).error(), no_such_session());
  EXPECT_EQ(t.table.begin(there, id, {}).error(), no_such_session());
  EXPECT_EQ(t.table.close(there, id), std::nullopt);
  EXPECT_TRUE(t.table.dump(here, id));
  auto fork = t.table.fork(here, id, 0);
  ASSERT_TRUE(fork);
  EXPECT_EQ(t.table.dump(there, *fork).error(), no_such_session());
  EXPECT_TRUE(t.table.dump(here, *fork));
  EXPECT_EQ(t.quota.taken(Tenant{0}), 2u) << "they are counted together";
}

}  // namespace
}  // namespace weir::session
