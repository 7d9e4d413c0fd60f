#include "wire/body_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/clients.h"
#include "base/fake_env.h"
#include "support/fake_wire.h"
#include "wire/body_growth.h"

namespace weir::wire {
namespace {

using namespace std::chrono_literals;
using Loss = BodyMemory::Loss;

struct MemoryFixture {
  base::FakeEnv env;
  BodyMemory::Need need;
  base::Clients clients;
  std::string log;
  support::FakeSlabs slabs;
  BodyMemory memory{env, need, {.budget = 1000}};
  base::ClientRef client(std::string_view name, uint64_t holds) {
    auto ref = clients.enter(name, base::Client::Limited::kYes);
    ref->add(base::Held::kSlabBytes, holds);
    return ref;
  }
};

struct Upload final : BodyMemory::Body {
  Upload(MemoryFixture& h, std::string n, uint64_t holds = 10) : state(h), name(std::move(n)), held(holds) {}
  void on_memory_free() override {
    state.log += name + "? ";
    if (takes) state.memory.leave(*this);
  }
  void on_memory_lost(Loss why) override { state.log += name + (why == Loss::kWaited ? " late " : " silent "); }
  uint64_t memory_held() const override { return held; }
  MemoryFixture& state;
  std::string name;
  uint64_t held;
  bool takes = false;
};

TEST(BodyMemory, WhatOneThrowsKeepsNoOtherFromItsMemory) {
  struct Thrower final : BodyMemory::Body {
    void on_memory_free() override { throw std::bad_alloc(); }
    void on_memory_lost(Loss) override {}
    uint64_t memory_held() const override { return 0; }
  };
  MemoryFixture h;
  Thrower first;
  Upload second(h, "b");
  h.memory.wait(first, nullptr, 100);
  h.memory.wait(second, nullptr, 100);
  h.memory.slabs_freed();
  EXPECT_EQ(h.log, "b? ");
  h.memory.slabs_freed();
  EXPECT_EQ(h.log, "b? b? ");
}

TEST(BodyMemory, WhoWaitsIsRefusedAfterASecond) {
  MemoryFixture h;
  Upload a(h, "a");
  h.memory.wait(a, nullptr, 100);
  EXPECT_EQ(h.need.bytes, 100u);
  h.env.advance(950ms);
  EXPECT_EQ(h.log.find("late"), std::string::npos);
  h.env.advance(100ms);
  EXPECT_NE(h.log.find("a late"), std::string::npos);
  EXPECT_EQ(h.need.bytes, 0u);
  EXPECT_EQ(h.memory.waiting(), 0u);
  h.env.advance(200ms);
  EXPECT_EQ(h.env.armed(), 0u);
}

TEST(BodyMemory, NobodyWaitsPastTheDeadline) {
  MemoryFixture h;
  Upload a(h, "a");
  h.memory.wait(a, nullptr, 100, h.env.now() + 250ms);
  h.env.advance(400ms);
  EXPECT_NE(h.log.find("a late"), std::string::npos);
}

TEST(BodyMemory, WhatComesFreeIsOfferedToWhoHoldsLeastAndThenToTheFirst) {
  MemoryFixture h;
  auto much = h.client("much", 500), little = h.client("little", 5);
  Upload a(h, "a"), b(h, "b"), c(h, "c"), d(h, "d");
  h.memory.wait(a, much.get(), 1);
  h.env.advance(1ms);
  h.memory.wait(b, little.get(), 1);
  h.env.advance(1ms);
  h.memory.wait(c, nullptr, 1);
  h.env.advance(1ms);
  h.memory.wait(d, little.get(), 1);
  h.memory.slabs_freed();
  EXPECT_EQ(h.log, "c? b? d? a? ");
}

TEST(BodyMemory, ANewcomerDoesNotGoBeforeOneWhoseClientHoldsLess) {
  MemoryFixture h;
  auto much = h.client("much", 200), little = h.client("little", 5);
  Upload a(h, "a");
  BodyOwner rich{&h.memory, much.get()}, poor{&h.memory, little.get()};
  auto takes = [&](BodyOwner& who) { return bool(base::Block(who.take(h.slabs, 10, BodyOwner::Size::kWhole))); };
  EXPECT_TRUE(takes(rich));
  h.memory.wait(a, little.get(), 1);
  EXPECT_FALSE(takes(rich));
  EXPECT_TRUE(takes(poor));
  h.memory.leave(a);
  EXPECT_TRUE(takes(rich));
}

TEST(BodyMemory, WhereMemoryIsScarceAClientHasItsShare) {
  MemoryFixture h;
  auto client = h.client("c", 240);
  BodyOwner owner{&h.memory, client.get()};
  auto takes = [&](uint64_t n) { return bool(base::Block(owner.take(h.slabs, n, BodyOwner::Size::kPart))); };
  EXPECT_TRUE(takes(100));
  h.slabs.is_scarce = true;
  EXPECT_TRUE(takes(10)) << "a quarter of 1000";
  EXPECT_FALSE(takes(11));
  Upload a(h, "a");
  h.memory.wait(a, client.get(), 100);
  EXPECT_EQ(h.need.bytes, 0u) << "nobody gives way to who has its share";
  auto proxy = h.clients.enter("proxy", base::Client::Limited::kNo);
  proxy->add(base::Held::kSlabBytes, 900);
  EXPECT_TRUE(bool(base::Block(BodyOwner{&h.memory, proxy.get()}.take(h.slabs, 50, BodyOwner::Size::kPart))));
}

// Bodies of one client that hold parts, and nothing else is out: else they would wait for each other until all are
// refused.
TEST(BodyMemory, PartsOfOneClientDoNotKeepEachOtherFromBecomingWhole) {
  MemoryFixture h;
  auto client = h.client("c", 240);
  BodyOwner owner{&h.memory, client.get()};
  h.slabs.is_scarce = h.slabs.only_parts_are = true;
  EXPECT_FALSE(bool(base::Block(owner.take(h.slabs, 100, BodyOwner::Size::kPart))));
  EXPECT_TRUE(bool(base::Block(owner.take(h.slabs, 100, BodyOwner::Size::kWhole))));
  h.slabs.only_parts_are = false;
  EXPECT_FALSE(bool(base::Block(owner.take(h.slabs, 100, BodyOwner::Size::kWhole))));
  constexpr uint64_t kAll = uint64_t(60) << 20, kCame = uint64_t(3) << 20;
  EXPECT_EQ(grown(h.slabs, kCame, kAll), 2 * kCame);
  h.slabs.only_parts_are = true;
  EXPECT_EQ(grown(h.slabs, kCame, kAll), kAll);
}

TEST(BodyMemory, TheLongestSilentGivesWayAndNoMoreThanAreNeeded) {
  MemoryFixture h;
  Upload a(h, "a"), b(h, "b"), c(h, "c"), w(h, "w");
  h.memory.hold(a, nullptr);
  h.env.advance(10ms);
  h.memory.hold(b, nullptr);
  h.env.advance(10ms);
  h.memory.hold(c, nullptr);
  h.env.advance(400ms);
  h.memory.hold(a, nullptr);  // a has brought something since
  h.env.advance(10s);
  EXPECT_EQ(h.log, "") << "while nobody waits everybody has all the time that its rate gives it";
  h.memory.hold(c, nullptr);
  h.memory.wait(w, nullptr, 10);
  h.env.advance(150ms);
  EXPECT_EQ(h.log.substr(0, 9), "b silent ");
  EXPECT_EQ(h.log.find("a silent"), std::string::npos) << "10 bytes were enough";
  h.memory.leave(w);
}

TEST(BodyMemory, ShortPausesAreNoSilence) {
  MemoryFixture h;
  Upload a(h, "a"), w(h, "w");
  w.takes = false;
  h.memory.wait(w, nullptr, 10);
  for (int i = 0; i < 8; ++i) {
    h.memory.hold(a, nullptr);
    h.env.advance(100ms);
  }
  EXPECT_EQ(h.log.find("silent"), std::string::npos);
}

TEST(BodyMemory, WhoWaitsOnAnotherShardIsHeardOf) {
  MemoryFixture h;
  BodyMemory other(h.env, h.need, {});
  Upload a(h, "a"), w(h, "w");
  other.hold(a, nullptr);
  h.env.advance(1s);
  h.memory.wait(w, nullptr, 10);
  h.env.advance(150ms);
  EXPECT_NE(h.log.find("a silent"), std::string::npos);
}

TEST(BodyMemory, WhoLeavesWhileOthersAreCalledIsNotCalled) {
  MemoryFixture h;
  struct Rude final : BodyMemory::Body {
    Rude(MemoryFixture& h, std::unique_ptr<Upload>& v) : state(h), victim(v) {}
    void on_memory_free() override { victim.reset(); }
    void on_memory_lost(Loss) override {}
    uint64_t memory_held() const override { return 0; }
    MemoryFixture& state;
    std::unique_ptr<Upload>& victim;
  };
  auto victim = std::make_unique<Upload>(h, "victim");
  Rude rude(h, victim);
  h.memory.wait(rude, nullptr, 1);
  h.env.advance(1ms);
  h.memory.wait(*victim, nullptr, 1);
  h.memory.slabs_freed();
  EXPECT_EQ(h.log, "");
  EXPECT_EQ(h.memory.waiting(), 1u);
}

}  // namespace
}  // namespace weir::wire
