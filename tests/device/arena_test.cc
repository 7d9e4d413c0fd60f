#include "device/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace weir::device {
namespace {

using End = Arena::End;

TEST(Arena, SmallThingsGoToOneEndAndLargeOnesToTheOther) {
  Arena arena(1000);
  EXPECT_EQ(arena.take(100, 1, End::kLow), 0u);
  EXPECT_EQ(arena.take(100, 1, End::kHigh), 900u);
  EXPECT_EQ(arena.take(50, 1, End::kLow), 100u);
  EXPECT_EQ(arena.take(50, 1, End::kHigh), 850u);
  EXPECT_EQ(arena.taken(), 300u);
  EXPECT_EQ(arena.largest(), 700u);
}

TEST(Arena, OffsetsAreAlignedFromBothEnds) {
  Arena arena(1000);
  ASSERT_EQ(arena.take(1, 1, End::kLow), 0u);
  EXPECT_EQ(arena.take(64, 64, End::kLow), 64u);
  EXPECT_EQ(arena.take(100, 64, End::kHigh), 896u);
  EXPECT_EQ(arena.take(104, 1, End::kHigh), 792u);
}

TEST(Arena, WhatIsFullGivesNothingAndTakesNothingAway) {
  Arena arena(128);
  EXPECT_EQ(arena.take(129, 1, End::kLow), std::nullopt);
  EXPECT_EQ(arena.take(0, 1, End::kLow), std::nullopt);
  ASSERT_EQ(arena.take(128, 64, End::kHigh), 0u);
  EXPECT_EQ(arena.take(1, 1, End::kLow), std::nullopt);
  EXPECT_EQ(arena.largest(), 0u);
  arena.give(0, 128);
  EXPECT_EQ(arena.largest(), 128u);
  EXPECT_EQ(Arena(0).take(1, 1, End::kLow), std::nullopt);
}

TEST(Arena, FreeNeighboursAreOneAgainInAnyOrder) {
  int order[3] = {0, 1, 2};
  do {
    Arena arena(300);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(arena.take(100, 1, End::kLow), uint64_t(i) * 100);
    for (int i : order) arena.give(uint64_t(i) * 100, 100);
    EXPECT_EQ(arena.largest(), 300u);
    EXPECT_EQ(arena.taken(), 0u);
  } while (std::next_permutation(order, order + 3));
}

TEST(ArenaDeathTest, ARangeComesBackOnce) {
  Arena arena(100);
  ASSERT_EQ(arena.take(40, 1, End::kLow), 0u);
  ASSERT_EQ(arena.take(40, 1, End::kLow), 40u);
  arena.give(0, 40);
  EXPECT_DEATH(arena.give(0, 40), "once");
}

TEST(Arena, RangesNeverOverlapWhateverTheOrder) {
  std::mt19937 random(7);
  Arena arena(1 << 16);
  std::map<uint64_t, uint64_t> out;
  for (int i = 0; i < 20000; ++i) {
    if (out.empty() || random() % 2) {
      uint64_t bytes = 1 + random() % 3000, align = uint64_t(1) << random() % 8;
      auto at = arena.take(bytes, align, random() % 2 ? End::kLow : End::kHigh);
      if (!at) continue;
      ASSERT_EQ(*at % align, 0u);
      ASSERT_LE(*at + bytes, uint64_t(1) << 16);
      auto after = out.lower_bound(*at);
      if (after != out.end()) {
        ASSERT_LE(*at + bytes, after->first);
      }
      if (after != out.begin()) {
        auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, *at);
      }
      out.emplace(*at, bytes);
    } else {
      auto some = std::next(out.begin(), long(random() % out.size()));
      arena.give(some->first, some->second);
      out.erase(some);
    }
  }
  for (auto [at, bytes] : out) arena.give(at, bytes);
  EXPECT_EQ(arena.largest(), uint64_t(1) << 16);
}

}  // namespace
}  // namespace weir::device
