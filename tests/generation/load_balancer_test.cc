// Which of a model's lanes a Call goes to.
#include "generation/load_balancer.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace weir::generation {
namespace {

struct FakeLane final : TokenInbox {
  struct Recorded {
    std::vector<msg::Call*> calls;
    int pokes = 0;
    size_t load = 0;
  };
  explicit FakeLane(Recorded& r) : recorded(r) {}
  void put(msg::Call* call) override { recorded.calls.push_back(call), ++recorded.load; }
  void poke() override { ++recorded.pokes; }
  size_t load() override { return recorded.load; }
  Recorded& recorded;
};

struct Spread {
  FakeLane::Recorded lanes[3];
  std::unique_ptr<msg::Inbox> inbox;
  std::vector<std::unique_ptr<msg::Call>> calls;

  Spread() {
    std::vector<std::unique_ptr<TokenInbox>> made;
    for (auto& lane : lanes) made.push_back(std::make_unique<FakeLane>(lane));
    inbox = make_token_load_balancer(std::move(made));
  }
  // Where it went.
  int put(uint32_t first_token, base::SessionId session = {}, msg::Aim aim = msg::Aim::kGenerate) {
    auto& call = *calls.emplace_back(std::make_unique<msg::Call>());
    call.session = session;
    call.generation = std::make_unique<msg::Generation>();
    call.generation->aim = aim;
    call.generation->append = {first_token, 1, 2};
    inbox->put(&call);
    for (int i = 0; i < 3; ++i)
      if (!lanes[i].calls.empty() && lanes[i].calls.back() == &call) return i;
    return -1;
  }
  void rest() {
    for (auto& lane : lanes) lane.load = 0;
  }
};

constexpr base::SessionId kOne{0, 1}, kTwo{0, 2};

TEST(TokenLoadBalancer, NewCallsGoWhereThereAreFewest) {
  Spread t;
  for (uint32_t i = 0; i < 30; ++i) t.put(i);
  for (const auto& lane : t.lanes) EXPECT_EQ(lane.calls.size(), 10u);
  t.lanes[0].load = 5, t.lanes[1].load = 3, t.lanes[2].load = 4;
  EXPECT_EQ(t.put(7), 1);
}

TEST(TokenLoadBalancer, AmongIdleLanesTheBeginningSaysWhich) {
  Spread t;
  std::set<int> used;
  for (uint32_t i = 0; i < 50; ++i) {
    t.rest();
    int first = t.put(i);
    t.rest();
    EXPECT_EQ(t.put(i), first) << "its beginning is cached there";
    used.insert(first);
  }
  EXPECT_EQ(used.size(), 3u);
}

TEST(TokenLoadBalancer, ABeginningIsTheFirstSixtyFourTokensOfAScopeWhereverTheyStand) {
  Spread t;
  auto lanes_of = [&](auto change) {
    std::set<int> used;
    for (uint32_t i = 0; i < 50; ++i) {
      t.rest();
      auto& call = *t.calls.emplace_back(std::make_unique<msg::Call>());
      call.generation = std::make_unique<msg::Generation>();
      call.generation->append.resize(70, 9);
      change(call, i);
      t.inbox->put(&call);
      for (int lane = 0; lane < 3; ++lane)
        if (!t.lanes[lane].calls.empty() && t.lanes[lane].calls.back() == &call) used.insert(lane);
    }
    return used.size();
  };
  EXPECT_EQ(lanes_of([](auto&, uint32_t) {}), 1u);
  EXPECT_EQ(lanes_of([](auto& call, uint32_t i) { call.generation->append[64] = i; }), 1u);
  EXPECT_EQ(lanes_of([](auto& call, uint32_t i) { call.generation->append[63] = i; }), 3u);
  EXPECT_EQ(lanes_of([](auto& call, uint32_t i) { call.generation->cache_salt = i; }), 3u);
  EXPECT_EQ(lanes_of([](auto& call, uint32_t i) { call.cache_scope = i; }), 3u);
  const std::vector<uint32_t> nines(50, 9);
  EXPECT_EQ(lanes_of([&](auto& call, uint32_t i) { call.generation->history = std::span(nines).first(i); }), 1u);
}

TEST(TokenLoadBalancer, ASessionStaysUntilItIsReleased) {
  Spread t;
  t.lanes[0].load = t.lanes[1].load = 9;
  EXPECT_EQ(t.put(1, kOne), 2);
  t.lanes[2].load = 100, t.lanes[1].load = 0;
  EXPECT_EQ(t.put(2, kOne), 2);
  EXPECT_EQ(t.put(2, kTwo), 1);
  EXPECT_EQ(t.put(2, kOne, msg::Aim::kRelease), 2);
  t.lanes[1].load = 100, t.lanes[0].load = 0;
  EXPECT_EQ(t.put(2, kOne), 0) << "another session of that id";
  EXPECT_EQ(t.put(0, base::SessionId{0, 3}, msg::Aim::kRelease), 0) << "one that never had a Call";
}

TEST(TokenLoadBalancer, AllLanesLookAgain) {
  Spread t;
  t.inbox->poke();
  for (const auto& lane : t.lanes) EXPECT_EQ(lane.pokes, 1);
}

}  // namespace
}  // namespace weir::generation
