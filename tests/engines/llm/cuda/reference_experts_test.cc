// The host versions of the kernels of mixtures of experts, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engines/llm/cuda/bf16.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda {
namespace {

using Ids = std::vector<uint32_t>;

TEST(LlmCudaExperts, ARowGoesToTheBestOfEqualOnesToTheFirst) {
  const float nan = NAN;
  const std::vector<float> scores{1,   3,         1,   2, 9,  // the fifth is no expert's
                                  nan, -INFINITY, nan, 0, 9, nan, nan, nan, nan, 9};
  Ids experts(6);
  std::vector<float> shares(6);
  reference::route({scores.data(), experts.data(), shares.data(), 3, 4, 2, 5, 2.f, Route::kOfUsed});
  EXPECT_EQ(experts, (Ids{1, 3, 0, 3, 0, 1}));
  EXPECT_FLOAT_EQ(shares[0], float(2 / (1 + std::exp(-1.0))));
  EXPECT_FLOAT_EQ(shares[0] + shares[1], 2);
  EXPECT_EQ(shares[2], 0);
  EXPECT_EQ(shares[3], 2);
  EXPECT_TRUE(std::isnan(shares[4]));
  reference::route({scores.data(), experts.data(), shares.data(), 1, 4, 2, 5, 1.f, Route::kOfAll});
  const double all = 1 + std::exp(-1.0) + 2 * std::exp(-2.0);
  EXPECT_FLOAT_EQ(shares[0], float(1 / all));
  EXPECT_FLOAT_EQ(shares[1], float(std::exp(-1.0) / all));
}

TEST(LlmCudaExperts, PairsAreSortedByExpertAndCutIntoTiles) {
  Ids experts;  // 20 rows that go to 0 and 2, then one to 1 and 2
  for (int i = 0; i < 20; ++i) experts.insert(experts.end(), {0, 2});
  experts.insert(experts.end(), {1, 2});
  const uint32_t pairs = 42, tiles = expert_tiles(pairs, 4);
  ASSERT_EQ(expert_tile_rows(pairs, 4), 16u);
  Ids order(pairs);
  std::vector<ExpertTile> tile(tiles);
  reference::place_pairs({experts.data(), order.data(), tile.data(), pairs, 4});
  EXPECT_EQ(order[1], 2u);
  EXPECT_EQ(order[20], 40u);
  EXPECT_EQ(order[21], 1u);
  Ids said;
  for (const auto& t : tile) said.insert(said.end(), {t.expert, t.first, t.count});
  Ids expected{0, 0, 16, 0, 16, 4, 1, 20, 1, 2, 21, 16, 2, 37, 5};
  expected.resize(said.size());
  EXPECT_EQ(said, expected);
}

// However the pairs fall, the tiles suffice.
TEST(LlmCudaExperts, ThereAreAsManyTilesAsAnyChoiceNeeds) {
  for (uint32_t count : {1u, 3u, 8u, 128u, 1024u})
    for (uint32_t pairs : {1u, 7u, 64u, 1000u, 16384u, 65536u}) {
      const uint32_t rows = expert_tile_rows(pairs, count), busy = std::min(pairs, count);
      const uint32_t one_has_most = busy - 1 + (pairs - busy + rows) / rows;
      const uint32_t all_overflow = busy + (pairs - busy) / rows;  // each has one more than fills its tiles
      EXPECT_GE(expert_tiles(pairs, count), std::max(one_has_most, all_overflow)) << pairs << " of " << count;
      EXPECT_LE(expert_tiles(pairs, count), pairs / 16 + busy + 1);  // what expert_activations.cc has room for
    }
}

TEST(LlmCudaExperts, AnswersAreAddedByTheirSharesAndTheSharedOneByItsGate) {
  std::vector<float> stream{1, 2}, answers{10, 20, 30, 40}, shares{0.5f, 0.25f}, shared{8, 16}, scores{7, 7, 0, 7};
  AddExperts a{stream.data(), answers.data(), shares.data(), nullptr, scores.data(), 1, 2, 2, 4, 2, 0.5f};
  reference::add_experts(a);
  EXPECT_EQ(stream, (std::vector<float>{13.5, 22}));
  a.shared = shared.data();
  reference::add_experts(a);
  EXPECT_EQ(stream, (std::vector<float>{28, 46}));  // half of a half of it
}

TEST(LlmCudaExperts, APairIsMultipliedWithItsExpert) {
  auto bf16 = [](std::initializer_list<float> in) {
    std::vector<Bf16> out;
    for (float f : in) out.push_back(narrow_bf16(f));
    return out;
  };
  const auto x = bf16({1, 2}), weight = bf16({1, 0, 0, 1, 3, 0, 0, 3});  // two experts of two outputs
  const Ids experts{0, 1};
  std::vector<float> out(4);
  ExpertMatmul a{};
  a.x = x.data(), a.weight = weight.data(), a.out = out.data(), a.experts = experts.data();
  a.pairs = 2, a.count = 2, a.per = 2, a.outputs = 2, a.inputs = 2, a.into = ExpertMatmul::kF32;
  reference::expert_matmul(a);
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 6}));
  std::vector<Bf16> gated(2);
  a.out = gated.data(), a.outputs = 1, a.into = ExpertMatmul::kSwiGlu;  // the first is the gate, the second `up`
  reference::expert_matmul(a);
  EXPECT_EQ(gated[1], narrow_bf16(float(3 / (1 + std::exp(-3.0)) * 6)));
}

}  // namespace
}  // namespace weir::llm::cuda
