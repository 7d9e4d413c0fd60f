// How Generates end that do not end well: failures, clients that leave, deadlines, sessions and models that go.
#include <gtest/gtest.h>

#include "bench.h"

namespace weir::salience {
namespace {

using Code = base::Code;
using namespace std::chrono_literals;

TEST(SalienceEnds, AFailureBeforeTheFirstTokenLeavesWhatLiesBeforeTheOffset) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3});
  auto r = Bench::request(id, 1, {9}, 5);
  r.set_truncating(true);
  auto x = t.generate(r);
  t.finish({msg::Failed{base::failure(Code::kResourceExhausted, "no blocks are left")}});
  EXPECT_EQ(support::grpc_message(*x), "no blocks are left");
  EXPECT_EQ(t.dump(id), Ids{1});
  auto again = t.generate(r);  // the same request is as good as before
  t.token(4, 2);
  t.finish();
  EXPECT_EQ(t.dump(id), (Ids{1, 9, 4}));
}

TEST(SalienceEnds, AFailureAfterATokenKeepsWhatWasSent) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1, 2}, 5));
  t.token(3, 2);
  t.finish({msg::Failed{base::failure(Code::kInternal, "the engine broke")}});
  EXPECT_EQ(support::grpc_status(*x), number(Code::kInternal));
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
  EXPECT_EQ(t.refused(Bench::request(id, 2, {1}, 1)).metadata.at("length"), "3");
}

TEST(SalienceEnds, AClientThatLeavesKeepsTheSessionBusyUntilTheEngineLetsGo) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2});
  auto x = t.generate(Bench::request(id, 2, {3}, 5));
  t.token(4, 3);
  x.reset();  // the client is gone
  EXPECT_TRUE(t.call().cancelled);
  EXPECT_EQ(t.chat().pokes, 1);
  EXPECT_EQ(t.refused(Bench::request(id, 4, {1}, 1)).code, number(Code::kAborted));
  t.token(5, 4);  // nobody has seen this one
  t.finish({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(t.shards[0]->bus.in_flight(), 0u);
}

TEST(SalienceEnds, AClientThatLeavesBeforeTheFirstTokenHasChangedNothing) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2});
  t.generate(Bench::request(id, 2, {3}, 0)).reset();
  t.finish();  // the engine was done already
  EXPECT_EQ(t.dump(id), (Ids{1, 2}));
}

TEST(SalienceEnds, ABusyServerChangesNothing) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2, 3});
  t.shards[0]->bus.close();
  auto r = Bench::request(id, 1, {9}, 5);
  r.set_truncating(true);
  EXPECT_EQ(t.refused(r).code, number(Code::kUnavailable));
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
}

TEST(SalienceEnds, AClientsDeadlineIsACancellation) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 5), 0, {{"grpc-timeout", "50m"}});
  t.token(4, 1);
  t.shards[0]->wire.advance(*x, 60ms);
  EXPECT_EQ(support::grpc_status(*x), number(Code::kDeadlineExceeded));
  EXPECT_TRUE(t.call().cancelled);
  t.finish({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(t.dump(id), (Ids{1, 4}));
}

TEST(SalienceEnds, ClosingTheSessionEndsWhatRunsInIt) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 5));
  pb::CloseSessionRequest close;
  close.set_session_id(id);
  EXPECT_EQ(t.ask<pb::CloseSessionResponse>("CloseSession", close).status, 0);
  EXPECT_TRUE(t.call().cancelled);
  EXPECT_TRUE(t.chat().released.empty());
  t.finish({msg::Failed{base::failure(Code::kCancelled, "cancelled")}});
  EXPECT_EQ(support::grpc_status(*x), number(Code::kAborted));
  EXPECT_EQ(t.chat().released.size(), 1u);
  EXPECT_EQ(t.shards[0]->sessions.table().sessions(), 0u);
}

TEST(SalienceEnds, AModelThatWasReplacedNeedsANewSession) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1});
  TextInbox* old = &t.chat();
  t.add("chat", text_spec());
  t.publish();
  EXPECT_EQ(t.refused(Bench::request(id, 1, {1}, 1)).reason, "MODEL_GONE");
  EXPECT_EQ(t.dump(id), Ids{1});
  t.shards[0]->wire.env.advance(31min);
  EXPECT_TRUE(old->released.empty() && t.chat().released.empty());
}

TEST(SalienceEnds, CreditComesBackAsThePeerReads) {
  Bench t;
  auto id = t.open();
  auto x = t.generate(Bench::request(id, 0, {1}, 99));
  EXPECT_EQ(t.call().credit, 64);
  for (uint32_t i = 0; i < 15; ++i) t.token(1, 1 + i);
  EXPECT_EQ(t.call().credit, 64);
  t.token(1, 16);
  EXPECT_EQ(t.call().credit, 80);
  x->fake_backlog = wire::Exchange::kLowWater;
  for (uint32_t i = 0; i < 40; ++i) t.token(1, 17 + i);
  EXPECT_EQ(t.call().credit, 80);
  x->listener()->on_drain(*x);
  EXPECT_EQ(t.call().credit, 120);
  t.finish();
}

}  // namespace
}  // namespace weir::salience
