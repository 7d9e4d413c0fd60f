// The host versions of the kernels, against numbers worked out by hand and against what must hold for any input.
#include "engines/llm/cuda/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "engines/llm/cuda/bf16.h"

namespace weir::llm::cuda {
namespace {

std::vector<Bf16> bf16(const std::vector<float>& in) {
  std::vector<Bf16> out;
  for (float f : in) out.push_back(narrow_bf16(f));
  return out;
}
std::vector<float> floats(const std::vector<Bf16>& in) {
  std::vector<float> out;
  for (auto b : in) out.push_back(widen_bf16(b));
  return out;
}
std::vector<Bf16> random_bf16(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> out(n);
  for (auto& b : out) b = narrow_bf16(normal(random));
  return out;
}

TEST(Bf16, RoundsToTheNearestEvenAndKeepsNan) {
  EXPECT_EQ(narrow_bf16(1.0f), 0x3f80);
  EXPECT_EQ(narrow_bf16(1.00390625f), 0x3f80);  // half way: to even
  EXPECT_EQ(narrow_bf16(1.01171875f), 0x3f82);
  EXPECT_EQ(narrow_bf16(1.004f), 0x3f81);
  EXPECT_EQ(narrow_bf16(-INFINITY), 0xff80);
  EXPECT_TRUE(std::isnan(widen_bf16(narrow_bf16(NAN))));
}

TEST(LlmCudaReference, NormAddsFirstAndDividesByTheRootMeanSquare) {
  std::vector<float> stream{1, 2, 3, 4};
  auto delta = bf16({2, 2, 0, 0}), weight = bf16({1, 2});
  std::vector<Bf16> out(4);
  reference::add_norm({stream.data(), delta.data(), weight.data(), out.data(), 2, 2, 0.f});
  EXPECT_EQ(stream, (std::vector<float>{3, 4, 3, 4}));
  float rms = std::sqrt(12.5f);
  EXPECT_EQ(out, bf16({3 / rms, 8 / rms, 3 / rms, 8 / rms}));
  reference::add_norm({stream.data(), nullptr, weight.data(), out.data(), 1, 2, 0.f});
  EXPECT_EQ(stream[0], 3);
}

TEST(LlmCudaReference, RopeTurnsPairsHalfAHeadApartAndStoresKeysAndValues) {
  const float quarter = float(M_PI / 2);
  std::vector<float> frequencies{quarter, 0};
  // One query head, one key head, dim 4, at position 1: (a, b, c, d) becomes (-c, b, a, d).
  auto qkv = bf16({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  std::vector<Bf16> q(4), k(8), v(8);
  uint32_t position = 1, slot = 1;
  RopeStore a{qkv.data(), frequencies.data(), &position, &slot, q.data(), k.data(), v.data(), 1, 1, 1, 4, 1.f};
  reference::rope_store(a);
  auto near = [](const std::vector<float>& is, const std::vector<float>& should) {
    for (size_t i = 0; i < should.size(); ++i) EXPECT_NEAR(is[i], should[i], 1e-5) << i;
  };
  near(floats(q), {-3, 2, 1, 4});
  near(floats(k), {0, 0, 0, 0, -7, 6, 5, 8});
  near(floats(v), {0, 0, 0, 0, 9, 10, 11, 12});
  slot = kNoSlot;  // an idle row writes only its query
  std::fill(k.begin(), k.end(), Bf16(0));
  reference::rope_store(a);
  EXPECT_EQ(k, std::vector<Bf16>(8, 0));
}

TEST(LlmCudaReference, SwiGluIsSiluOfTheGateTimesUp) {
  auto in = bf16({0, 1, -20, 3, 5, 2});  // gates 0, 1, -20; ups 3, 5, 2
  std::vector<Bf16> out(3);
  reference::swiglu({in.data(), out.data(), 1, 3});
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], narrow_bf16(5 / (1 + std::exp(-1.f))));
  EXPECT_NEAR(widen_bf16(out[2]), 0, 1e-6);
}

TEST(LlmCudaReference, EmbedAndGatherPickRows) {
  auto table = bf16({0, 1, 10, 11, 20, 21});
  std::vector<uint32_t> ids{2, 0, 2};
  std::vector<float> stream(6);
  reference::embed({stream.data(), table.data(), ids.data(), 3, 2});
  EXPECT_EQ(stream, (std::vector<float>{20, 21, 0, 1, 20, 21}));
  std::vector<Bf16> out(6);
  reference::gather({table.data(), ids.data(), out.data(), 3, 2});
  EXPECT_EQ(floats(out), stream);
}

struct Attention {
  explicit Attention(uint32_t length, uint32_t heads = 4, uint32_t kv = 2, uint32_t d = 64)
      : q(random_bf16(heads * d, 1)),
        k(random_bf16(64 * 16 * kv * d, 2)),
        v(random_bf16(64 * 16 * kv * d, 3)),
        out(heads * d) {
    for (uint32_t b = 0; b < 64; ++b) table.push_back(63 - b);
    lengths = {length};
    a = {q.data(), k.data(), v.data(), table.data(), lengths.data(),
         nullptr,  nullptr,  nullptr,  out.data(),   1,
         heads,    kv,       d,        64,           16,
         0,        0,        0.125f};
  }
  std::vector<Bf16> q, k, v, out;
  std::vector<uint32_t> table, lengths;
  DecodeAttention a;
};

TEST(LlmCudaReference, AttentionOverOnePositionIsItsValue) {
  Attention one(1);
  reference::decode_attention(one.a);
  size_t slot = 63 * 16;
  for (uint32_t head = 0; head < 4; ++head)
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(one.out[head * 64 + i], one.v[(slot * 2 + head / 2) * 64 + i]);
}

TEST(LlmCudaReference, AttentionStaysWithinTheValuesAndAWindowForgetsTheBeginning) {
  Attention all(500), window(500), tail(10);
  window.a.window = 10;
  reference::decode_attention(all.a);
  reference::decode_attention(window.a);
  EXPECT_NE(all.out, window.out);
  // The last ten positions alone, moved to the front of a sequence.
  for (uint32_t p = 0; p < 10; ++p) {
    uint32_t from = 490 + p, to_slot = 63 * 16 + p, slot = (63 - from / 16) * 16 + from % 16;
    std::copy_n(window.k.begin() + slot * 128, 128, tail.k.begin() + to_slot * 128);
    std::copy_n(window.v.begin() + slot * 128, 128, tail.v.begin() + to_slot * 128);
  }
  reference::decode_attention(tail.a);
  EXPECT_EQ(window.out, tail.out);
  Attention none(0);
  reference::decode_attention(none.a);
  EXPECT_EQ(none.out, std::vector<Bf16>(256, 0));
}

uint32_t draw(const std::vector<float>& logits, DrawRow params, float* logprob = nullptr) {
  uint32_t id = 0;
  reference::draw({logits.data(), &params, &id, logprob, 1, uint32_t(logits.size())});
  return id;
}

TEST(LlmCudaReference, GreedyTakesTheFirstOfTheLikeliest) {
  float logprob = 0;
  EXPECT_EQ(draw({1, 3, 3, -INFINITY}, {0, 1, 0, 0, 1, 1}, &logprob), 1u);
  EXPECT_NEAR(logprob, 3 - std::log(2 * std::exp(3.0) + std::exp(1.0)), 1e-5);
}

TEST(LlmCudaReference, OnlyWhatIsKeptIsDrawn) {
  std::vector<float> logits{0, 5, 4, 4, 4.5f, -INFINITY, 1};
  auto sampled = [&](DrawRow params) {
    std::map<uint32_t, int> counts;
    for (uint64_t n = 0; n < 2000; ++n) {
      params.seed = 99, params.number = n;
      ++counts[draw(logits, params)];
    }
    std::vector<uint32_t> ids;
    for (auto [id, n] : counts) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<uint32_t>;
  EXPECT_EQ(sampled({1, 1, 0, 0, 0, 0}), (Ids{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(sampled({1, 1, 0, 3, 0, 0}), (Ids{1, 2, 4}));  // of equals the first
  EXPECT_EQ(sampled({1, 0.5f, 0, 0, 0, 0}), (Ids{1, 4}));
  EXPECT_EQ(sampled({1, 1, 0.3f, 0, 0, 0}), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(sampled({1, 0.0f, 0, 0, 0, 0}), (Ids{1}));
}

TEST(LlmCudaReference, SharesOfDrawsFollowTheWeights) {
  std::vector<float> logits{std::log(1.f), std::log(2.f), std::log(5.f)};
  int counts[3] = {};
  for (uint64_t n = 0; n < 8000; ++n) ++counts[draw(logits, {1, 1, 0, 0, 7, n})];
  EXPECT_NEAR(counts[0], 1000, 120);
  EXPECT_NEAR(counts[1], 2000, 160);
  EXPECT_NEAR(counts[2], 5000, 200);
}

TEST(LlmCudaReference, AnIdMayStandForWhatWasDrawnAndFeaturesForTokens) {
  auto table = bf16({0, 1, 10, 11, 20, 21});
  std::vector<uint32_t> ids{kSampled | 1, 0}, sampled{7, 2}, tokens{1};
  std::vector<float> stream(4), features{5, 6};
  reference::embed({stream.data(), table.data(), ids.data(), 2, 2, sampled.data()});
  EXPECT_EQ(stream, (std::vector<float>{20, 21, 0, 1}));
  reference::patch({stream.data(), features.data(), tokens.data(), 1, 2});
  EXPECT_EQ(stream, (std::vector<float>{20, 21, 5, 6}));
}

TEST(LlmCudaReference, BiasesAndHeadNormsComeBeforeTheTurn) {
  std::vector<float> frequencies{0}, bias{1, 1, 1, 1, 2, 2};
  auto qkv = bf16({2, 3, 2, 3, 8, 9}), norm = bf16({1, 2});
  std::vector<Bf16> q(2), k(2), v(2);
  std::vector<uint32_t> positions{5}, slots{0};
  reference::rope_store({qkv.data(), frequencies.data(), positions.data(), slots.data(), q.data(), k.data(), v.data(),
                         1, 1, 1, 2, 1.f, bias.data(), norm.data(), norm.data(), 0.f});
  float rms = std::sqrt(12.5f);
  EXPECT_EQ(q, bf16({3 / rms, 8 / rms}));
  EXPECT_EQ(k, q);
  EXPECT_EQ(v, bf16({10, 11}));
  auto gate_up = bf16({0, 3});
  std::vector<float> both{1, 1};
  reference::swiglu({gate_up.data(), v.data(), 1, 1, both.data()});
  EXPECT_EQ(v[0], narrow_bf16(4 / (1 + std::exp(-1.f))));
}

TEST(LlmCudaReference, ProductsAreRoundedStoredOrAdded) {
  auto x = bf16({1, 2, 3, 4, 5, 6}), w = bf16({1, 0, 1, 0, 2, 0});
  std::vector<float> bias{10, 20}, out{1, 1, 1, 1};
  using Into = Matmul::Into;
  const auto& table = reference::table();
  auto multiply = [&](const float* b, void* to, Into into) {
    return table.matmul({}, nullptr, {x.data(), w.data(), b, to, 2, 2, 3, into});
  };
  EXPECT_EQ(multiply(bias.data(), out.data(), Into::kAddF32), 0);
  EXPECT_EQ(out, (std::vector<float>{15, 25, 21, 31}));
  EXPECT_EQ(multiply(nullptr, out.data(), Into::kF32), 0);
  EXPECT_EQ(out, (std::vector<float>{4, 4, 10, 10}));
  reference::matmul({x.data(), w.data(), bias.data(), out.data(), 2, 2, 3, Into::kF32, false, 0.5f});
  EXPECT_EQ(out, (std::vector<float>{12, 22, 15, 25}));
  std::vector<Bf16> half(4);
  EXPECT_EQ(multiply(nullptr, half.data(), Into::kBf16), 0);
  EXPECT_EQ(half, bf16({4, 4, 10, 10}));
  EXPECT_EQ(multiply(bias.data(), half.data(), Into::kBf16), Code(kBadShape));
}

// Every query of a chunk sees what a decode at its position sees.
TEST(LlmCudaReference, APromptIsAttendedToAsItsTokensAloneAre) {
  constexpr uint32_t kTokens = 150, kHeads = 4, kKvHeads = 2, kDim = 8, kBlock = 4;
  auto q = random_bf16(kTokens * kHeads * kDim, 1), k = random_bf16(200 * kKvHeads * kDim, 2),
       v = random_bf16(200 * kKvHeads * kDim, 3);
  std::vector<uint32_t> tables{99, 99};
  for (uint32_t b = 0; b < 50; ++b) tables.push_back(49 - b);
  std::vector<Chunk> chunks{{0, kTokens, 40, 2}};
  std::vector<Tile> tiles{{0, 128}, {0, 0}, {0, 64}};
  for (uint32_t window : {0u, 30u}) {
    std::vector<Bf16> out(q.size()), one(kHeads * kDim);
    reference::prefill_attention({q.data(), k.data(), v.data(), tables.data(), chunks.data(), tiles.data(), out.data(),
                                  3, kHeads, kKvHeads, kDim, kBlock, window, 0.3f});
    for (uint32_t t = 0; t < kTokens; ++t) {
      uint32_t length = 41 + t, start = 2;
      reference::decode_attention({q.data() + t * kHeads * kDim, k.data(), v.data(), tables.data(), &length, nullptr,
                                   nullptr, nullptr, one.data(), 1, kHeads, kKvHeads, kDim, 0, kBlock, 1, window, 0.3f,
                                   &start});
      ASSERT_TRUE(std::equal(one.begin(), one.end(), out.begin() + t * kHeads * kDim)) << t;
    }
  }
}

TEST(LlmCudaReference, LogitsThatAreNotNumbersGiveNoToken) {
  std::vector<float> logits{NAN, NAN, -INFINITY, NAN, NAN, 1}, logprobs(6);
  std::vector<DrawRow> draws{{0, 1, 0, 0, 1, 1}, {1, 1, 0, 0, 1, 1}, {1, 0.5f, 0, 2, 1, 1}};
  std::vector<uint32_t> ids(6, 9), from{0, 0, 0}, to{0, 1, 2};
  reference::draw({logits.data(), draws.data(), ids.data(), logprobs.data(), 3, 3, from.data(), to.data()});
  from = {1, 1, 1}, to = {3, 4, 5};
  reference::draw({logits.data(), draws.data(), ids.data(), logprobs.data(), 3, 3, from.data(), to.data()});
  EXPECT_EQ(ids, (std::vector<uint32_t>{kNoToken, kNoToken, kNoToken, 2, 2, 2}));
  EXPECT_EQ(logprobs[0], -INFINITY);
  auto table = bf16({1, 2, 3, 4});
  std::vector<uint32_t> fed{kSampled | 1, kSampled | 3};
  std::vector<float> stream(4);
  ids[3] = 1;
  reference::embed({stream.data(), table.data(), fed.data(), 2, 2, ids.data()});
  EXPECT_EQ(stream, (std::vector<float>{1, 2, 3, 4})) << "a row that nobody uses is some token's";
}

TEST(LlmCudaReference, LogitsAreChangedInACopyAndLogprobsAreOfTheModels) {
  std::vector<float> logits{0, 0, 0, 0, 2, -2, 4, 1}, adjusted(4);
  std::vector<Change> changes{
      {0, 0, 3, 0}, {1, 0, 0, Change::kWasThere}, {2, 2, 1, Change::kWasThere}, {3, 0, 0, Change::kNever}};
  std::vector<AdjustRow> rows{{1, 0, 4, 0.5f, 0.25f, 2}};
  reference::adjust({logits.data(), rows.data(), changes.data(), adjusted.data(), 1, 4});
  EXPECT_EQ(adjusted, (std::vector<float>{5, -4, 1.5f, -INFINITY}));
  // The same where the last token is not in the changes yet: one that they name once less, or not at all.
  const std::vector<uint32_t> sampled{9, 2, 1};
  for (uint32_t last : {1u, 2u}) {
    auto known = changes;
    std::erase_if(known, [&](const Change& c) { return last == 2 && c.id == 1; });
    for (auto& c : known) c.generated -= c.id == sampled[last];
    std::vector<AdjustRow> follows{{1, 0, uint32_t(known.size()), 0.5f, 0.25f, 2, last}};
    reference::adjust({logits.data(), follows.data(), known.data(), adjusted.data(), 1, 4, sampled.data()});
    EXPECT_EQ(adjusted[sampled[last]], last == 1 ? 1.5f : -4.75f) << last;
  }
  std::vector<DrawRow> draws{{0, 1, 0, 0, 1, 1}, {0, 1, 0, 0, 1, 1}};
  std::vector<uint32_t> ids(4, 9), from{1, kAdjusted | 0}, to{3, 1};
  reference::draw({logits.data(), draws.data(), ids.data(), nullptr, 2, 4, from.data(), to.data(), adjusted.data()});
  EXPECT_EQ(ids, (std::vector<uint32_t>{9, 0, 9, 2}));
  std::vector<LogprobRow> asked{{1, 3, 2}, {0, 0, 0}};
  std::vector<float> logprobs(2), best(4);
  std::vector<uint32_t> best_ids(4);
  reference::logprobs(
      {logits.data(), asked.data(), ids.data(), logprobs.data(), best_ids.data(), best.data(), 2, 4, 2});
  float sum = std::log(std::exp(2.f) + std::exp(-2.f) + std::exp(4.f) + std::exp(1.f));
  EXPECT_NEAR(logprobs[0], 4 - sum, 1e-5);
  EXPECT_EQ(logprobs[1], -INFINITY);  // 9 is no token
  EXPECT_EQ(best_ids, (std::vector<uint32_t>{2, 0, kNoToken, kNoToken}));
  EXPECT_NEAR(best[1], 2 - sum, 1e-5);
}

TEST(LlmCudaReference, AMaskLeavesWhatMayCome) {
  std::vector<float> logits(66), adjusted(66);
  std::iota(logits.begin(), logits.end(), 0.f);
  std::vector<Change> changes{{65, 0, 7, 0}, {40, 0, 100, 0}};
  std::vector<AdjustRow> rows{{0, 0, 2, 0, 0, 1}};
  rows[0].mask = 3;
  std::vector<uint32_t> masks{9, 9, 9, 1u << 5, 1u << 31, 1u << 1};
  Adjust a{logits.data(), rows.data(), changes.data(), adjusted.data(), 1, 66};
  a.masks = masks.data();
  reference::adjust(a);
  for (uint32_t id = 0; id < 66; ++id)
    EXPECT_EQ(adjusted[id], id == 5 || id == 63 ? logits[id] : id == 65 ? 72 : -INFINITY) << id;
}

TEST(LlmCudaReference, ReadoutsAreProductsAndPoolsAreSums) {
  std::vector<float> stream{1, 2, 3, 4}, vectors{1, 0, 1, 1, 0, 2}, out(5, 9);
  std::vector<uint32_t> tokens{1};
  reference::read_out({stream.data(), tokens.data(), vectors.data(), out.data() + 1, 1, 3, 2, 4});
  EXPECT_EQ(out, (std::vector<float>{9, 3, 7, 8, 9}));
  auto rows = bf16({1, 2, 3, 4, 5, 6});
  std::vector<PoolRange> ranges{{1, 2, 1}, {0, 1}};
  std::vector<double> sums(4), before{9, 9, 0.25, 0x1p-40};
  reference::pool({rows.data(), ranges.data(), sums.data(), 2, 2, nullptr, before.data()});
  EXPECT_EQ(sums, (std::vector<double>{8.25, 10 + 0x1p-40, 1, 2}));
}

}  // namespace
}  // namespace weir::llm::cuda
