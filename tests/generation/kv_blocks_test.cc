#include "generation/kv_blocks.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

namespace weir::generation {
namespace {

constexpr auto kNone = KvBlocks::kNone;

struct Blocks {
  explicit Blocks(uint32_t blocks) : kv(blocks, 2, 99) {}
  KvBlocks::Content of(uint64_t after, uint32_t first, uint64_t salt = 0, Digest images = {}, uint32_t adapter = 0) {
    auto& ids = kept.emplace_back(std::vector<uint32_t>{first, first + 1});
    return {salt, after, ids, images, adapter};
  }
  // A sealed block that nobody holds.
  uint64_t cache(uint64_t after, uint32_t first, uint64_t salt = 0, Digest images = {}) {
    auto id = kv.seal(kv.take(), of(after, first, salt, images));
    EXPECT_NE(id, kNone);
    if (id == kNone) return 0;
    kv.drop(id);
    return kv.chain(id);
  }
  bool has(uint64_t after, uint32_t first, uint64_t salt = 0, Digest images = {}) {
    auto id = kv.find(of(after, first, salt, images));
    if (id != kNone) kv.drop(id);
    return id != kNone;
  }
  std::deque<std::vector<uint32_t>> kept;
  KvBlocks kv;
};

TEST(KvBlocks, AreFreeHeldOrCached) {
  Blocks t(3);
  auto a = t.kv.take(), b = t.kv.take();
  EXPECT_EQ(t.kv.used(), 2u);
  t.kv.share(a);
  t.kv.drop(a);
  EXPECT_EQ(t.kv.used(), 2u);
  EXPECT_TRUE(t.kv.writable(a));
  ASSERT_EQ(t.kv.seal(a, t.of(0, 5)), a);
  EXPECT_FALSE(t.kv.writable(a));
  t.kv.drop(a), t.kv.drop(b);
  EXPECT_EQ(t.kv.used(), 0u);
  EXPECT_EQ(t.kv.cached(), 1u);
  EXPECT_EQ(t.kv.find(t.of(0, 5)), a);
  EXPECT_EQ(t.kv.used(), 1u);
}

TEST(KvBlocks, AreFoundByTheirAdapterAlone) {
  Blocks t(8);
  const auto id = t.kv.seal(t.kv.take(), t.of(0, 5, 7, {}, 1));
  EXPECT_EQ(t.kv.find(t.of(0, 5, 7, {}, 0)), kNone);
  EXPECT_EQ(t.kv.find(t.of(0, 5, 7, {}, 2)), kNone);
  EXPECT_EQ(t.kv.find(t.of(0, 5, 7, {}, 1)), id);
}

TEST(KvBlocks, AreFoundBySaltPredecessorIdsAndImages) {
  Blocks t(8);
  auto chain = t.cache(0, 5);
  t.cache(chain, 7);
  EXPECT_TRUE(t.has(0, 5));
  EXPECT_TRUE(t.has(chain, 7));
  EXPECT_FALSE(t.has(0, 7));
  EXPECT_FALSE(t.has(chain, 5));
  EXPECT_FALSE(t.has(0, 6));
  EXPECT_FALSE(t.has(0, 5, 1));
  EXPECT_FALSE(t.has(0, 5, 0, {1, 0}));
}

TEST(KvBlocks, WhatWasHeldLongestAgoGoesFirst) {
  Blocks t(3);
  t.cache(0, 10), t.cache(0, 20), t.cache(0, 30);
  EXPECT_TRUE(t.has(0, 10));  // held a moment ago
  auto taken = t.kv.take();
  EXPECT_NE(taken, kNone);
  EXPECT_FALSE(t.has(0, 20));
  EXPECT_TRUE(t.has(0, 30));
  EXPECT_TRUE(t.has(0, 10));
  t.kv.take(), t.kv.take();
  EXPECT_EQ(t.kv.take(), kNone);
  EXPECT_EQ(t.kv.available(), 0u);
}

TEST(KvBlocks, TheSameContentsAreKeptOnce) {
  Blocks t(4);
  auto first = t.kv.take(), second = t.kv.take();
  ASSERT_EQ(t.kv.seal(first, t.of(0, 5)), first);
  EXPECT_EQ(t.kv.seal(second, t.of(0, 5)), first);
  EXPECT_EQ(t.kv.holders(first), 2u);
  EXPECT_EQ(t.kv.used(), 1u);
}

// seal() gives kNone where another block stands under the same hash.
TEST(KvBlocks, TheSameIdsUnderAnotherSaltAfterAnotherBlockOrWithAnotherImageAreKeptBesideEachOther) {
  Blocks t(8);
  auto chain = t.cache(0, 5);
  t.cache(0, 5, 1), t.cache(0, 5, 2), t.cache(chain, 5), t.cache(0, 5, 0, {1, 0}), t.cache(0, 5, 0, {0, 1});
  EXPECT_EQ(t.kv.cached(), 6u);
  for (uint64_t salt : {0, 1, 2}) EXPECT_TRUE(t.has(0, 5, salt)) << salt;
  EXPECT_TRUE(t.has(chain, 5));
  EXPECT_TRUE(t.has(0, 5, 0, {1, 0}));
  EXPECT_TRUE(t.has(0, 5, 0, {0, 1}));
  EXPECT_FALSE(t.has(0, 5, 1, {1, 0}));
}

TEST(KvBlocks, ABlockThatWasTakenAgainNamesNothingAnyMore) {
  Blocks t(1);
  auto chain = t.cache(0, 5);
  t.kv.drop(t.kv.take());
  EXPECT_FALSE(t.has(0, 5));
  auto again = t.cache(0, 5);
  EXPECT_NE(again, chain);  // what came after the first one is not found after the second
}

}  // namespace
}  // namespace weir::generation
