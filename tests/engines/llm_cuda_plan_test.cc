#include <gtest/gtest.h>

#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/plan.h"

namespace weir::llm::cuda {
namespace {

using Sizes = std::vector<uint32_t>;

TEST(LlmCudaPlan, BucketsDoubleAndThenGoByHalves) {
  EXPECT_EQ(graph_buckets(64), (Sizes{1, 2, 4, 8, 12, 16, 24, 32, 48, 64}));
  EXPECT_EQ(graph_buckets(1), (Sizes{1}));
  EXPECT_EQ(graph_buckets(3), (Sizes{1, 2, 3}));
  EXPECT_EQ(graph_buckets(50), (Sizes{1, 2, 4, 8, 12, 16, 24, 32, 48, 50}));
  EXPECT_EQ(graph_buckets(12), (Sizes{1, 2, 4, 8, 12}));
  EXPECT_EQ(graph_buckets(0), Sizes());
}

TEST(LlmCudaPlan, EveryBatchHasABucketThatIsAtMostAThirdIdleFromEightOn) {
  auto buckets = graph_buckets(256);
  for (uint32_t rows = 1; rows <= 256; ++rows) {
    uint32_t bucket = bucket_for(buckets, rows);
    ASSERT_GE(bucket, rows);
    if (rows > 8) {
      ASSERT_LE(3 * (bucket - rows), bucket) << rows;
    }
  }
  EXPECT_EQ(bucket_for(buckets, 257), 0u);
  EXPECT_EQ(bucket_for({}, 1), 0u);
}

TEST(LlmCudaPlan, PartsOfASequenceDependOnItsLengthAlone) {
  EXPECT_EQ(parts_of(0), 0u);
  EXPECT_EQ(parts_of(1), 1u);
  EXPECT_EQ(parts_of(256), 1u);
  EXPECT_EQ(parts_of(257), 2u);
  EXPECT_EQ(parts_of(UINT32_MAX), 1u << 24);
}

TEST(LlmCudaPlan, FewGraphsHoldAllLengths) {
  EXPECT_EQ(captured_parts(1, 8192), 1u);
  EXPECT_EQ(captured_parts(257, 8192), 4u);
  EXPECT_EQ(captured_parts(1025, 8192), 16u);
  EXPECT_EQ(captured_parts(4097, 8192), 32u);
  EXPECT_EQ(captured_parts(8192, 8192), 32u);
  EXPECT_EQ(captured_parts(0, 0), 1u);
  for (uint32_t n = 1; n <= 131072; n += 97) ASSERT_GE(captured_parts(n, 131072), parts_of(n));
}

TEST(LlmCudaPlan, PartMemoryHoldsAllThreeArraysApart) {
  auto m = part_memory(3, 5, 64, 7);
  EXPECT_EQ(m.out, 0u);
  EXPECT_GE(m.max, size_t(3 * 5 * 7 * 64 * 4));
  EXPECT_GE(m.sum, m.max + 3 * 5 * 7 * 4);
  EXPECT_GE(m.bytes, m.sum + 3 * 5 * 7 * 4);
  EXPECT_EQ(m.max % 256 + m.sum % 256 + m.bytes % 256, 0u);
}

sched::TokenStep two_rows() {
  sched::TokenStep step;
  step.rows = {{0, 1, 5, 0, 2}, {1, 1, 9, 2, 3}};
  step.ids = {11, 22}, step.positions = {4, 8}, step.slots = {40, 80};
  step.tables = {7, 8, 1, 2, 3};
  return step;
}

TEST(LlmCudaPlan, ADecodeStepIsPackedIntoItsBucket) {
  DecodePack pack;
  Sizes buckets{1, 2, 4};
  auto step = two_rows();
  step.rows.push_back(step.rows[0]);
  ASSERT_EQ(pack_decode(step, buckets, 4, 4, pack), base::Status());
  EXPECT_EQ(pack.bucket, 4u);
  EXPECT_EQ(pack.rows, 3u);
  EXPECT_EQ(pack.longest, 9u);
  EXPECT_EQ(Sizes(pack.ids().begin(), pack.ids().end()), (Sizes{11, 22, 11, 0}));
  EXPECT_EQ(Sizes(pack.positions().begin(), pack.positions().end()), (Sizes{4, 8, 4, 0}));
  EXPECT_EQ(Sizes(pack.slots().begin(), pack.slots().end()), (Sizes{40, 80, 40, kNoSlot}));
  EXPECT_EQ(Sizes(pack.lengths().begin(), pack.lengths().end()), (Sizes{5, 9, 5, 0}));
  EXPECT_EQ(Sizes(pack.tables().begin(), pack.tables().end()), (Sizes{7, 8, 0, 0, 1, 2, 3, 0, 7, 8, 0, 0, 0, 0, 0, 0}));
}

TEST(LlmCudaPlan, NothingOfTheLastStepIsLeftInThePack) {
  DecodePack pack;
  Sizes buckets{2, 4};
  auto large = two_rows();
  large.rows.push_back(large.rows[0]);
  ASSERT_TRUE(pack_decode(large, buckets, 4, 4, pack).ok());
  auto one = two_rows();
  one.rows.resize(1);
  ASSERT_TRUE(pack_decode(one, buckets, 4, 4, pack).ok());
  EXPECT_EQ(pack.words.size(), 2u * 8);
  EXPECT_EQ(pack.lengths()[1], 0u);
  EXPECT_EQ(pack.slots()[1], kNoSlot);
  EXPECT_EQ(pack.longest, 5u);
}

TEST(LlmCudaPlan, WhatDoesNotFitIsRefused) {
  DecodePack pack;
  Sizes buckets{1, 2};
  auto refused = [&](auto change) {
    auto step = two_rows();
    change(step);
    return pack_decode(step, buckets, 4, 4, pack).code == base::Code::kInvalidArgument;
  };
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto& s) { s.rows.clear(); }));
  EXPECT_TRUE(refused([](auto& s) { s.rows.push_back(s.rows[0]); }));
  EXPECT_TRUE(refused([](auto& s) { s.rows[1].count = 2; }));
  EXPECT_TRUE(refused([](auto& s) { s.rows[1].length = 13; }));
  EXPECT_TRUE(refused([](auto& s) { s.rows[1].blocks = 5; }));
}

}  // namespace
}  // namespace weir::llm::cuda
