// The door to sessions across shards: two shards on two threads, as under a server. Worth running under TSan.
#include "session/sessions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "sessions_fixture.h"

namespace weir::session {
namespace {

// A cluster in which a test says who has a session.
struct Others final : OtherNodes {
  base::Status saved;
  int saves = 0;
  void keep_for(base::Duration) override {}
  NodeTag tag() const override { return NodeTag(1); }
  uint64_t epoch() const override { return 1; }
  void save(SessionId, std::string, ShardId, Done then) override { ++saves, then(saved); }
  void end(SessionId) override {}
  std::optional<Place> guess(SessionId) const override { return std::nullopt; }
  std::optional<Place> node_with(std::string_view, std::span<const std::string>) const override { return std::nullopt; }
  void find(SessionId, std::string, ShardId, Found then) override { then(Place{}); }
};

TEST(Sessions, OneThatAnotherNodeHasIsGoneFromHereAndOneThatCouldNotBeKeptIsNot) {
  Pair t;
  Others others;
  t.doors[0] = nullptr;
  t.doors[0] =
      std::make_unique<Sessions>(*t.buses[0], ShardId(0), t.homes, t.quota, SessionLimits{}, t.metrics, &others);
  Sessions& here = *t.doors[0];
  const auto id = here.open(kMe, t.model).value();
  for (Code code : {Code::kOk, Code::kUnavailable, Code::kAborted}) {
    others.saved = code == Code::kOk ? base::Status() : base::failure(code, "so it is");
    std::optional<base::Status> told;
    here.keep(kMe, id, [&](const base::Status& status) { told = status; });
    t.crank();
    ASSERT_TRUE(told);
    EXPECT_EQ(*told, others.saved);
    EXPECT_EQ(here.table().holds(kMe, id), code != Code::kAborted);
  }
  EXPECT_EQ(others.saves, 3);
  EXPECT_EQ(t.metric("weir_sessions"), 0u);
}

TEST(Sessions, AtHomeEverythingIsAnsweredAtOnce) {
  Pair t;
  Sessions& here = *t.doors[0];
  auto id = here.open(kMe, t.model).value();
  EXPECT_EQ(home_of(id, 2), ShardId(0));
  EXPECT_EQ(t.metric("weir_sessions"), 1u);
  Told told;
  here.borrow(kMe, id, {}, told);
  ASSERT_TRUE(told.answer && *told.answer);
  here.give_back(told.answer->value(), {Outcome::Kind::kAppended, {1, 2, 3}, {}, {4}});
  std::vector<uint32_t> tokens;
  here.dump(kMe, id, [&](auto r) { tokens = r.value(); });
  EXPECT_EQ(tokens, (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_TRUE(t.posts.empty());
}

TEST(Sessions, OfAnotherShardAreLentAndGivenBackAcross) {
  Pair t;
  auto id = t.doors[0]->open(kMe, t.model).value();
  Told told, second;
  t.doors[1]->borrow(kMe, id, {0, Append::Rewind::kNo, 2, 0}, told);
  EXPECT_FALSE(told.answer);
  t.crank();
  ASSERT_TRUE(told.answer && *told.answer);
  t.doors[0]->borrow(kMe, id, {}, second);
  EXPECT_EQ(second.answer->error().code, Code::kAborted);
  t.doors[1]->give_back(told.answer->value(), {Outcome::Kind::kAppended, {1, 2}, {}, {}});
  t.crank();
  const uint64_t bytes = t.doors[0]->table().bytes();
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(t.metric("weir_session_bytes"), bytes);
  SessionId fork{};
  t.doors[1]->fork(kMe, id, 1, [&](auto r) { fork = r.value(); });
  t.crank();
  EXPECT_EQ(home_of(fork, 2), ShardId(0));  // beside its parent
  EXPECT_EQ(t.metric("weir_sessions"), 2u);
  EXPECT_EQ(t.metric("weir_sessions_opened_total"), 2u);
  EXPECT_EQ(t.metric("weir_session_bytes"), bytes + sizeof(uint32_t));
  std::vector<uint32_t> tokens;
  t.doors[1]->dump(kMe, fork, [&](auto r) { tokens = r.value(); });
  t.crank();
  EXPECT_EQ(tokens, std::vector<uint32_t>{1});
}

TEST(Sessions, ClosingOneThatIsLentTellsWhoHasIt) {
  Pair t;
  auto id = t.doors[0]->open(kMe, t.model).value();
  Told told;
  t.doors[1]->borrow(kMe, id, {}, told);
  t.crank();
  bool closed = false;
  t.doors[0]->close(kMe, id, [&] { closed = true; });
  EXPECT_TRUE(closed);
  EXPECT_FALSE(told.ended);
  t.crank();
  EXPECT_TRUE(told.ended);
  EXPECT_EQ(t.inbox().releases, 0);  // the engine may still be at it
  t.doors[1]->give_back(told.answer->value(), {});
  t.crank();
  EXPECT_EQ(t.inbox().releases, 1);
  EXPECT_EQ(t.doors[0]->table().sessions(), 0u);
  EXPECT_EQ(t.metric("weir_sessions"), 0u);
}

TEST(Sessions, ALeaseThatIsOnItsWayBackIsNotRevoked) {
  Pair t;
  auto id = t.doors[0]->open(kMe, t.model).value();
  Told told;
  t.doors[1]->borrow(kMe, id, {}, told);
  t.crank();
  t.doors[0]->close(kMe, id, [] {});
  t.doors[1]->give_back(told.answer->value(), {});
  t.crank();
  EXPECT_FALSE(told.ended);
  EXPECT_EQ(t.doors[0]->table().sessions(), 0u);
}

TEST(Sessions, TheEngineHearsOfTheEndOfThoseItMayKnow) {
  Pair t;
  auto used = t.doors[0]->open(kMe, t.model).value();
  t.doors[0]->open(kMe, t.model).value();
  Told told;
  t.doors[0]->borrow(kMe, used, {}, told);
  t.doors[0]->give_back(told.answer->value(), {});
  t.env.advance(std::chrono::minutes(31));
  EXPECT_EQ(t.doors[0]->table().sessions(), 0u);
  EXPECT_EQ(t.inbox().releases, 1);
  EXPECT_EQ(t.inbox().released, used);
  t.crank();
}

TEST(Sessions, AModelThatWasLoadedAgainKeepsNothingForASession) {
  Pair t;
  auto id = t.doors[0]->open(kMe, t.model).value();
  Told told;
  t.doors[0]->borrow(kMe, id, {}, told);
  t.doors[0]->give_back(told.answer->value(), {});
  t.buses[0]->publish(catalog());
  size_t armed = t.env.armed();
  t.doors[0]->close(kMe, id, [] {});
  EXPECT_EQ(t.buses[0]->in_flight(), 0u);
  EXPECT_EQ(t.env.armed(), armed) << "and nobody tries again";
}

TEST(Sessions, WhatAFullBusDoesNotTakeIsAskedForAgainEachSecond) {
  Pair t;
  t.refill(1);
  Told told[3];
  std::vector<SessionId> ids;
  for (auto& one : told) {
    ids.push_back(t.doors[0]->open(kMe, t.model).value());
    t.doors[0]->borrow(kMe, ids.back(), {}, one);
    t.doors[0]->give_back(one.answer->value(), {});
  }
  size_t armed = t.env.armed();
  for (auto id : ids) t.doors[0]->close(kMe, id, [] {});
  EXPECT_EQ(t.inbox().releases, 1) << "one is under way";
  EXPECT_EQ(t.env.armed(), armed + 1) << "one timer for both that wait";
  t.buses[0]->turn();
  t.env.advance(std::chrono::milliseconds(999));
  EXPECT_EQ(t.inbox().releases, 1);
  t.env.advance(std::chrono::milliseconds(1));
  EXPECT_EQ(t.inbox().releases, 2);
  EXPECT_EQ(t.inbox().released, ids[1]);
  t.buses[0]->turn();
  t.env.advance(std::chrono::seconds(1));
  EXPECT_EQ(t.inbox().releases, 3);
  EXPECT_EQ(t.inbox().released, ids[2]);
  EXPECT_EQ(t.env.armed(), armed);
  t.buses[0]->turn();
}

TEST(Sessions, ThoseOfAShardThatEndsAreNotAskedForAgain) {
  Pair t;
  t.refill(0);
  auto id = t.doors[0]->open(kMe, t.model).value();
  Told told;
  t.doors[0]->borrow(kMe, id, {}, told);
  t.doors[0]->give_back(told.answer->value(), {});
  t.doors[0]->close(kMe, id, [] {});
  EXPECT_EQ(t.env.armed(), 2u);
  t.doors[0] = nullptr;
  EXPECT_EQ(t.env.armed(), 0u);
}

TEST(Sessions, AFullBusHearsOfTheEndLater) {
  Pair t;
  t.refill(0);
  auto id = t.doors[0]->open(kMe, t.model).value();
  Told told;
  t.doors[0]->borrow(kMe, id, {}, told);
  t.doors[0]->give_back(told.answer->value(), {});
  t.doors[0]->close(kMe, id, [] {});
  EXPECT_EQ(t.inbox().releases, 0);
  t.env.advance(std::chrono::seconds(5));
  EXPECT_EQ(t.inbox().releases, 0);
  size_t armed = t.env.armed();
  t.buses[0]->publish(std::make_shared<bus::Catalog>());  // nobody is left to tell
  t.env.advance(std::chrono::seconds(5));
  EXPECT_EQ(t.env.armed(), armed - 1);
}

// ---- Two threads

class Thread {
 public:
  void post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    posts_.push_back(std::move(work));
    wake_.notify_one();
  }
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !posts_.empty(); });
      auto work = std::move(posts_.front());
      posts_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }
  base::FakeEnv env;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> posts_;
};

// Borrows one session again and again, and lets a third thread, the engine, read it before it is given back.
class Visitor final : public Borrower {
 public:
  Visitor(Sessions& door, SessionId id, Thread& shard, Thread& engine, std::atomic<int>& left)
      : door_(door), id_(id), shard_(shard), engine_(engine), left_(left) {}

  void next() { door_.borrow(kMe, id_, {length_, Append::Rewind::kNo, 1, 0}, *this); }
  void granted(base::Result<Lease> lease) override {
    if (!lease) {
      busy_ += lease.error().code == Code::kAborted;
      if (auto at = lease.error().text.find("has "); at != std::string::npos)
        length_ = uint32_t(std::stoul(lease.error().text.substr(at + 4)));
      if (lease.error().code == Code::kNotFound) return over();
      return shard_.post([this] { next(); });
    }
    lease_ = *lease;
    engine_.post([this] {
      uint64_t sum = 0;
      for (uint32_t token : lease_.tokens) sum += token;
      shard_.post([this, sum] { computed(sum); });
    });
  }
  void revoked() override {}
  uint32_t rounds = 200;

 private:
  void computed(uint64_t sum) {
    EXPECT_EQ(sum, uint64_t(lease_.tokens.size()) * 7);
    length_ = uint32_t(lease_.tokens.size()) + 1;
    door_.give_back(lease_, {Outcome::Kind::kAppended, {7}, {}, {}});
    if (--rounds == 0) return over();
    next();
  }
  void over() {
    if (--left_ > 0) return;
    shard_.post(nullptr);
  }

  Sessions& door_;
  SessionId id_;
  Thread& shard_;
  Thread& engine_;
  std::atomic<int>& left_;
  uint32_t length_ = 0;
  int busy_ = 0;
  Lease lease_;
};

TEST(Sessions, TwoShardsAndAnEngineShareASessionWithoutARace) {
  Thread threads[2], engine;
  base::Metrics metrics;
  Quota quota{1};
  Homes homes{2, [&](ShardId shard, std::function<void()> work) { threads[size_t(shard)].post(std::move(work)); }};
  auto served = catalog();
  std::vector<std::unique_ptr<bus::Bus>> buses;
  std::vector<std::unique_ptr<Sessions>> doors;
  for (uint16_t i = 0; i < 2; ++i) {
    buses.push_back(std::make_unique<bus::Bus>(threads[i].env, ShardId(i), [] {}));
    doors.push_back(std::make_unique<Sessions>(*buses[i], ShardId(i), homes, quota, SessionLimits{}, metrics));
  }
  auto id = doors[0]->open(kMe, {"chat", "1", {}}).value();
  std::atomic<int> left[2]{1, 1};
  Visitor a(*doors[0], id, threads[0], engine, left[0]), b(*doors[1], id, threads[1], engine, left[1]);
  threads[0].post([&] { a.next(); });
  threads[1].post([&] { b.next(); });
  std::atomic<size_t> most{0};
  std::function<void()> look = [&] {  // a reader beside
    doors[1]->dump(kMe, id, [&](auto r) {
      if (!r) return;
      most = std::max(most.load(), r->size());
      if (r->size() < 400 && left[1] > 0) threads[1].post(look);
    });
  };
  threads[1].post(look);

  std::thread worker([&] { engine.run(); });
  // Shard 0 must serve shard 1 until that is through.
  left[0] = 2;
  std::thread zero([&] { threads[0].run(); });
  std::thread one([&] {
    threads[1].run();
    threads[0].post([&] {
      if (--left[0] == 0) threads[0].post(nullptr);
    });
  });
  one.join();
  zero.join();
  engine.post(nullptr);
  worker.join();
  size_t length = 0;
  doors[0]->dump(kMe, id, [&](auto r) { length = r.value().size(); });
  EXPECT_EQ(length, 400u);
  EXPECT_LE(most, 400u);
}

}  // namespace
}  // namespace weir::session
