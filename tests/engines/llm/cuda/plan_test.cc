#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/plan.h"
#include "engines/llm/cuda/sampling_plan.h"

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

TEST(LlmCudaPlan, PromptsOfTheseSizesChooseEveryAlgorithm) {
  for (uint32_t most : {7u, 9u, 64u, 65u, 300u, 2048u}) {
    const auto sizes = prompt_sizes(most);
    for (uint32_t rows = kThinRows + 1; rows <= most; ++rows)
      EXPECT_TRUE(
          std::any_of(sizes.begin(), sizes.end(), [&](uint32_t s) { return row_bucket(s) == row_bucket(rows); }))
          << rows << " of " << most;
    EXPECT_TRUE(std::all_of(sizes.begin(), sizes.end(), [&](uint32_t s) { return s <= most; }));
    EXPECT_LE(sizes.size(), 26u);
  }
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

TEST(LlmCudaPlan, TheGraphsOfABucketAreForTheseParts) {
  EXPECT_EQ(part_counts(8192, 8192), (Sizes{1, 4, 16, 32}));
  EXPECT_EQ(part_counts(1024, 8192), (Sizes{1, 4}));
  EXPECT_EQ(part_counts(256, 256), (Sizes{1}));
  EXPECT_EQ(part_counts(0, 8192), (Sizes{1}));
  auto all = part_counts(131072, 131072);
  for (uint32_t n = 1; n <= 131072; n += 97)
    ASSERT_TRUE(std::binary_search(all.begin(), all.end(), captured_parts(n, 131072))) << n;
}

TEST(LlmCudaPlan, SmallPacksAreFilledUpToFewSizes) {
  EXPECT_EQ(pack_bucket(20, 1, 512).tokens, 24u);
  EXPECT_EQ(pack_bucket(20, 1, 512).tiles, 1u);
  EXPECT_EQ(pack_bucket(20, 5, 512).tiles, 16u);
  EXPECT_EQ(pack_bucket(257, 5, 512).tokens, 0u);
  EXPECT_EQ(pack_bucket(33, 5, 32).tokens, 0u);
  auto all = pack_buckets(512);
  EXPECT_LT(all.size(), 60u);
  for (uint32_t tokens = 1; tokens <= kGraphTokens; ++tokens)
    for (uint32_t tiles : {(tokens + 63) / 64, (tokens + 20) / 21, std::min(tokens, 32u)}) {
      auto key = pack_bucket(tokens, tiles, 512).key();
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto& b) { return b.key() == key; }))
          << tokens << " in " << tiles;
    }
}

TEST(LlmCudaPlan, PartMemoryHoldsAllThreeArraysApart) {
  auto m = part_memory(3, 5, 64, 7);
  EXPECT_EQ(m.out, 0u);
  EXPECT_GE(m.max, size_t(3 * 5 * 7 * 64 * 4));
  EXPECT_GE(m.sum, m.max + 3 * 5 * 7 * 4);
  EXPECT_GE(m.bytes, m.sum + 3 * 5 * 7 * 4);
  EXPECT_EQ(m.max % 256 + m.sum % 256 + m.bytes % 256, 0u);
}

// Rows of 1, 3, 1 and 70 tokens.
generation::TokenStep four_rows() {
  generation::TokenStep step;
  step.rows = {{0, 1, 5, 0, 2}, {1, 3, 9, 2, 3}, {4, 1, 2, 5, 1}, {5, 70, 90, 6, 23}};
  for (uint32_t i = 0; i < 75; ++i) {
    step.ids.push_back(100 + i), step.slots.push_back(1000 + i);
    step.positions.push_back(i == 0 ? 4 : i < 4 ? 5 + i : i == 4 ? 1 : 15 + i);
  }
  step.tables.resize(29);
  return step;
}

TEST(LlmCudaPlan, RowsOfOneTokenComeFirstAndTheOthersAreCutIntoTiles) {
  StepPlan plan;
  for (int again = 0; again < 2; ++again) plan_step(four_rows(), plan);  // nothing of the last step is left
  EXPECT_EQ(plan.singles, 2u);
  EXPECT_EQ(plan.longest, 5u);
  EXPECT_EQ(plan.lengths, (Sizes{5, 2}));
  EXPECT_EQ(plan.starts, (Sizes{0, 5}));
  EXPECT_EQ(Sizes(plan.ids.begin(), plan.ids.begin() + 6), (Sizes{100, 104, 101, 102, 103, 105}));
  EXPECT_EQ(Sizes(plan.place.begin(), plan.place.begin() + 6), (Sizes{0, 2, 3, 4, 1, 5}));
  EXPECT_EQ(plan.slots[1], 1004u);
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[0].first, 2u);
  EXPECT_EQ(plan.chunks[0].begin, 6u);
  EXPECT_EQ(plan.chunks[1].first, 5u);
  EXPECT_EQ(plan.chunks[1].count, 70u);
  EXPECT_EQ(plan.chunks[1].begin, 20u);
  EXPECT_EQ(plan.chunks[1].table, 6u);
  ASSERT_EQ(plan.tiles.size(), 3u);  // the longest first
  EXPECT_EQ(plan.tiles[0].chunk, 1u);
  EXPECT_EQ(plan.tiles[0].query, 64u);
  EXPECT_EQ(plan.tiles[1].query, 0u);
  EXPECT_EQ(plan.tiles[2].chunk, 0u);
}

// The rows of the step above: the two singles, the last of three tokens, and of 70 one in the first tile.
TEST(LlmCudaPlan, TheLastLayerGoesOnWithWhatSomebodyWants) {
  auto step = four_rows();
  step.logits_requests = {{.token = 3}};
  step.readouts = {{.token = 10, .values = {}}};
  StepPlan plan;
  Trim trim;
  for (int again = 0; again < 2; ++again) plan_step(step, plan), plan_trim(step, plan, trim);
  EXPECT_TRUE(trim.any);
  EXPECT_EQ(trim.kept, (Sizes{0, 1, 4, 10}));
  for (uint32_t i = 0; i < trim.kept.size(); ++i) EXPECT_EQ(trim.row[trim.kept[i]], i);
  ASSERT_EQ(trim.tiles.size(), 2u);  // not the one with the last six of the 70
  EXPECT_EQ(trim.tiles[0].chunk, 1u);
  EXPECT_EQ(trim.tiles[0].query, 0u);
  EXPECT_EQ(trim.tiles[1].chunk, 0u);

  step.pools = {{.row = 3, .sum = {}}, {.row = 0, .sum = {}}};
  plan_trim(step, plan, trim);
  EXPECT_EQ(trim.kept.size(), 2u + 1 + 70);
  EXPECT_EQ(trim.row[plan.place[5]], 3u);

  step.pools.push_back({.row = 1, .sum = {}});
  plan_trim(step, plan, trim);
  EXPECT_FALSE(trim.any);
  for (uint32_t i = 0; i < 75; ++i) ASSERT_EQ(trim.row[i], i);
}

TEST(LlmCudaPlan, APromptThatNobodyLooksAtEndsWithItsKeysAndValues) {
  auto step = four_rows();
  step.rows = {step.rows[3]};
  StepPlan plan;
  Trim trim;
  plan_step(step, plan), plan_trim(step, plan, trim);
  EXPECT_TRUE(trim.any);
  EXPECT_TRUE(trim.kept.empty());
  EXPECT_TRUE(trim.tiles.empty());
}

TEST(LlmCudaPlan, IdleRowsOfAGraphSeeNothingAndWriteNothing) {
  StepPlan plan;
  auto step = four_rows();
  step.rows = {step.rows[0], step.rows[2]};
  plan_step(step, plan);
  pad(plan, 4);
  EXPECT_EQ(plan.singles, 2u);
  EXPECT_EQ(plan.ids, (Sizes{100, 104, 0, 0}));
  EXPECT_EQ(plan.slots, (Sizes{1000, 1004, kNoSlot, kNoSlot}));
  EXPECT_EQ(plan.lengths, (Sizes{5, 2, 0, 0}));
  EXPECT_EQ(plan.starts.size(), 4u);
  EXPECT_EQ(plan.positions.size(), 4u);
}

// Whole groups of query heads, of 64, 96, 128 or 256 dimensions: as decode.cu and prefill.cu take them.
TEST(LlmCudaPlan, OnlyHeadsThatTheKernelsKnowRunOnCuda) {
  for (uint32_t dim : {16u, 32u, 64u, 80u, 96u, 128u, 192u, 256u, 512u})
    for (uint32_t kv_heads : {1u, 2u, 8u})
      for (uint32_t group = 1; group <= 20; ++group)
        EXPECT_EQ(has_attention(kv_heads * group, kv_heads, dim), dim == 64 || dim == 96 || dim == 128 || dim == 256)
            << group << " heads over each of " << kv_heads << " of " << dim;
  EXPECT_FALSE(has_attention(7, 2, 64));
  EXPECT_FALSE(has_attention(4, 0, 64));
}

using LogitsRequest = generation::TokenStep::LogitsRequest;

TEST(LlmCudaPlan, LogitsRequestsBecomeDrawsChangesAndLogprobs) {
  msg::Generation plain, changed;
  changed.sampling.repetition_penalty = 2, changed.sampling.frequency_penalty = 0.5f;
  changed.sampling.logit_bias = {{7, 1.f}, {7, 2.f}, {99, 1.f}};
  changed.stop_ids = {3};
  Sizes sequence{5, 7, 8, 8};
  std::vector<LogitsRequest> logits_requests(4);
  logits_requests[0] = {.kind = LogitsRequest::Kind::kSample, .params = &plain, .draw = 6, .seed = 4};
  logits_requests[1] = {.kind = LogitsRequest::Kind::kScore, .wants_logprob = true, .top = 3, .id = 12};
  logits_requests[2] = {
      .kind = LogitsRequest::Kind::kSample, .params = &changed, .sequence = sequence, .prompt = 2, .hold_eos = true};
  logits_requests[3] = {.kind = LogitsRequest::Kind::kSample, .params = &plain, .wants_logprob = true};
  Sizes eos{1};
  SamplingPlan plan(50, eos, 3);
  for (int again = 0; again < 2; ++again) plan.plan(logits_requests);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_TRUE(plan.scores);
  EXPECT_EQ(plan.most, 3u);
  EXPECT_EQ(plan.ids, (Sizes{0, 12, 0, 0}));
  const auto& first = plan.groups[0];
  EXPECT_EQ(first.draws.count, 1u);
  ASSERT_EQ(first.adjusts.size(), 1u);
  EXPECT_EQ(first.first_adjusted, 1u);
  EXPECT_EQ(plan.from, (Sizes{0, kAdjusted | 0, 0}));
  EXPECT_EQ(plan.to, (Sizes{0, 2, 3}));
  EXPECT_EQ(plan.draws[0].number, 6u);
  EXPECT_EQ(plan.draws[0].seed, 4u);
  ASSERT_EQ(plan.adjusts.size(), 1u);
  EXPECT_EQ(plan.adjusts[0].row, 2u);
  std::map<uint32_t, Change> changes;
  for (const auto& c : plan.changes) changes[c.id] = c;
  ASSERT_EQ(plan.changes.size(), 5u);  // 5, 7, 8, and the ends 1 and 3; 99 is no token
  EXPECT_EQ(changes[7].bias, 3.f);
  EXPECT_EQ(changes[7].generated, 0u);
  EXPECT_EQ(changes[8].generated, 2u);
  EXPECT_EQ(changes[8].flags, Change::kWasThere);
  EXPECT_EQ(changes[1].flags, Change::kNever);
  EXPECT_EQ(changes[3].flags, Change::kNever);
  ASSERT_EQ(plan.logprobs.size(), 2u);
  EXPECT_EQ(plan.logprobs[0].row, 1u);
  EXPECT_EQ(plan.logprobs[0].id, 1u);
  EXPECT_EQ(plan.logprobs[1].row, 0u);  // in its group
  EXPECT_EQ(plan.logprobs[1].id, 3u);
}

TEST(LlmCudaPlan, APlaceholderIsNeverDrawn) {
  msg::Generation plain, biased;
  biased.sampling.logit_bias = {{7, 1.f}};
  std::vector<LogitsRequest> logits_requests(3);
  logits_requests[0].params = &plain, logits_requests[1].params = &biased;
  logits_requests[2] = {.kind = LogitsRequest::Kind::kScore, .params = &plain, .id = 7};
  Sizes never{7, 99};
  SamplingPlan plan(50, {}, 8, never);
  plan.plan(logits_requests);
  ASSERT_EQ(plan.adjusts.size(), 2u) << "a score is of what the model says";
  EXPECT_EQ(plan.groups[0].draws.count, 0u);
  ASSERT_EQ(plan.changes.size(), 2u);
  for (const auto& change : plan.changes) {
    EXPECT_EQ(change.id, 7u);
    EXPECT_EQ(change.flags, Change::kNever);
  }
}

struct OddConstraint final : msg::TokenConstraint {
  void prepare() override {}
  std::span<const uint32_t> mask() override { return words; }
  bool accept(uint32_t) override { return true; }
  bool complete() const override { return false; }
  std::vector<uint32_t> words{0xaaaaaaaa};
};

TEST(LlmCudaPlan, AFormsMaskIsOneBitForEachToken) {
  msg::Generation free, biased, form;
  auto& odd = static_cast<OddConstraint&>(*(form.constraint = std::make_unique<OddConstraint>()));
  auto& none = static_cast<OddConstraint&>(*(biased.constraint = std::make_unique<OddConstraint>()));
  none.words.clear(), biased.sampling.logit_bias = {{7, 1.f}};
  std::vector<LogitsRequest> logits_requests(3);
  logits_requests[0].params = &form, logits_requests[1].params = &free, logits_requests[2].params = &biased;
  SamplingPlan plan(50, {}, 8);
  for (int again = 0; again < 2; ++again) plan.plan(logits_requests);
  ASSERT_EQ(plan.adjusts.size(), 2u);
  EXPECT_EQ(plan.adjusts[0].count, 0u) << "no change for each token that may not come";
  EXPECT_EQ(plan.changes.size(), 1u);
  EXPECT_EQ(plan.masked, (std::vector<msg::TokenConstraint*>{&odd, &none}));
  EXPECT_EQ(plan.adjusts[0].mask, 0u);
  EXPECT_EQ(plan.adjusts[1].mask, 2u);
  Sizes masks(5, 77);
  plan.write_masks(masks.data());
  EXPECT_EQ(masks, (Sizes{0xaaaaaaaa, 0, 0, 0, 77})) << "what a mask has no bit for may not come";
}

TEST(LlmCudaPlan, APenaltyOfATokenThatIsNotKnownYetNamesTheRequestThatDrewIt) {
  msg::Generation penalty, bias;
  penalty.sampling.presence_penalty = 1, bias.sampling.logit_bias = {{7, 1.f}};
  constexpr uint32_t kSampledId = generation::TokenStep::kSampled;
  Sizes sequence{5, 7}, fed{kSampledId | 3, kSampledId | 1, 8};
  std::vector<LogitsRequest> logits_requests(3);
  logits_requests[0] = {.token = 0, .params = &bias, .sequence = sequence, .prompt = 1};
  logits_requests[1] = {.token = 1, .params = &penalty, .sequence = sequence, .prompt = 1};
  logits_requests[2] = {.token = 2, .params = &penalty, .sequence = sequence, .prompt = 1};
  SamplingPlan plan(50, {}, 8);
  plan.plan(logits_requests, fed);
  ASSERT_EQ(plan.adjusts.size(), 3u);
  EXPECT_EQ(plan.adjusts[0].last, kNoIndex);
  EXPECT_EQ(plan.adjusts[1].last, 1u);
  EXPECT_EQ(plan.adjusts[2].last, kNoIndex);
  EXPECT_TRUE(plan.follows);
  plan.plan(std::span(logits_requests).last(1), fed);
  EXPECT_FALSE(plan.follows);
}

}  // namespace
}  // namespace weir::llm::cuda
