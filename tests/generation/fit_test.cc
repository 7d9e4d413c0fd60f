// The room of a model of tokens: for a Call, and for keys and values in all.
#include "generation/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fake_engine.h"
#include "generation/kv_budget.h"
#include "generation/position_set.h"

namespace weir::generation {
namespace {

using base::Code;

// A Call of four tokens for a model of 97 ids and a context of 20, with six blocks of four positions.
struct Fit {
  Fit() {
    call.generation = std::make_unique<msg::Generation>();
    call.generation->append = {1, 2, 3, 4};
  }
  base::Status operator()() const { return fits_tokens(call, spec, room); }
  msg::Generation& params() { return *call.generation; }

  msg::ModelSpec spec = token_spec(20);
  TokenRoom room{6, 4};
  msg::Call call;
};

TEST(TokensFit, UpToTheContextAndNoFurther) {
  Fit fits;
  EXPECT_TRUE(fits().ok());
  fits.params().append.resize(20);
  EXPECT_TRUE(fits().ok());
  fits.params().append.resize(21);
  EXPECT_EQ(fits().text, "the sequence has 21 tokens, more than the model's context of 20");
  EXPECT_EQ(fits().code, Code::kOutOfRange);
}

TEST(TokensFit, IntoAllBlocksLessOneWherePositionsMayBeFedAgain) {
  Fit fits;
  fits.room.blocks = 4;
  fits.params().append.resize(16);
  EXPECT_TRUE(fits().ok());
  fits.params().readouts = {{0, 1}};
  EXPECT_EQ(fits().text,
            "the sequence has 16 tokens, but the server keeps keys and values of at most 12 for this model");
  fits.params().append.resize(12);
  EXPECT_TRUE(fits().ok());
  fits.params().readouts.clear(), fits.params().logprobs = {{0, 1}};
  EXPECT_TRUE(fits().ok());
  fits.params().append.resize(13);
  EXPECT_EQ(fits().code, Code::kOutOfRange);
  fits.room.blocks = 0;
  EXPECT_EQ(fits().text,
            "the sequence has 13 tokens, but the server keeps keys and values of at most 0 for this model");
}

TEST(TokensFit, IdsAreBelowTheVocabulary) {
  Fit fits;
  const std::vector<uint32_t> history{1, 2, 500};
  fits.params().history = history;  // was checked when it was new
  fits.params().append = {96};
  EXPECT_TRUE(fits().ok());
  fits.params().append = {96, 97};
  EXPECT_EQ(fits().text, "token 4 is id 97; ids are below 97");
  fits.params().append = {5};
  fits.params().sampling.logit_bias = {{96, 1.f}};
  EXPECT_TRUE(fits().ok());
  for (auto [id, bias] : {std::pair(97u, 1.f), {5u, std::nanf("")}}) {
    fits.params().sampling.logit_bias = {{96, 1.f}, {id, bias}};
    EXPECT_EQ(fits().text, "logit_bias of id " + std::to_string(id) + " is not a number for an id below 97");
  }
}

TEST(TokensFit, ImagesLieInWhatIsNewOneAfterTheOtherWithAPadEach) {
  Fit fits;
  const std::vector<uint32_t> history{1, 2};
  fits.params().history = history;
  fits.params().append = {1, 2, 3, 4, 5, 6};
  auto fit = [&](std::vector<std::pair<uint32_t, uint32_t>> places) {
    fits.params().images.clear();
    for (auto [start, end] : places) fits.params().images.push_back({{}, "image/png", start, end});
    return fits().ok();
  };
  EXPECT_TRUE(fit({{2, 5}, {5, 8}}));
  EXPECT_FALSE(fit({{1, 5}})) << "in the history";
  EXPECT_FALSE(fit({{2, 4}})) << "without a pad";
  EXPECT_FALSE(fit({{5, 9}})) << "beyond the end";
  EXPECT_FALSE(fit({{2, 6}, {5, 8}})) << "in the first one";
  EXPECT_FALSE(fit({{5, 2}}));
  auto blind = std::make_shared<msg::TextSpec>(*fits.spec.text);
  blind->vision.reset();
  fits.spec.text = blind;
  EXPECT_TRUE(fit({}));
  EXPECT_FALSE(fit({{2, 5}}));
  EXPECT_EQ(fits().text, "this model does not take images");
}

TEST(TokensFit, AReleaseNeedsASessionAndNothingElse) {
  Fit fits;
  fits.params().aim = msg::Aim::kRelease;
  fits.params().append.clear();
  EXPECT_EQ(fits().text, "there is no session to release");
  fits.call.session = {0, 1};
  EXPECT_TRUE(fits().ok());
  fits.params().aim = msg::Aim::kEmbed;
  EXPECT_FALSE(fits().ok()) << "an embedding is of something";
  fits.params().append = {1};
  EXPECT_TRUE(fits().ok());
  fits.params().aim = msg::Aim(9);
  EXPECT_EQ(fits().text, "an unknown aim");
}

TEST(TokensFit, APlaceOfASequenceIsInTheContextAndInTheBlocks) {
  auto spec = token_spec(20);
  EXPECT_EQ((TokenRoom{6, 4}.positions(*spec.text)), 20u);
  EXPECT_EQ((TokenRoom{4, 4}.positions(*spec.text)), 16u);
}

// The fake engine's positions take 16 bytes each.
TEST(KvBudget, HasTheBlocksThatItsBytesHoldAndThatSequencesCanUse) {
  auto spec = token_spec();
  FakeTokenEngine engine(spec);
  TokenPolicy policy;
  policy.block_size = 4, policy.max_running = 2, policy.kv_bytes = 64 * 10 + 63;
  EXPECT_EQ(bytes_per_block(engine, policy), 64u);
  EXPECT_EQ(kv_blocks(engine, policy, 100), 10u);
  EXPECT_EQ(kv_positions(engine, policy, 100), 36u) << "a block is for positions that are fed again";
  EXPECT_EQ(kv_positions(engine, policy, 30), 30u);
  policy.kv_bytes = 64;
  EXPECT_EQ(kv_positions(engine, policy, 30), 0u);
  policy.kv_bytes = 0;
  EXPECT_EQ(kv_positions(engine, policy, 30), 0u);
  policy.kv_bytes = size_t(1) << 30;
  EXPECT_EQ(kv_blocks(engine, policy, 10), 16u * 2 * 3) << "sixteen times what runs";
  policy.max_running = policy.step_tokens = 1u << 20;
  EXPECT_EQ(kv_blocks(engine, policy, 1000), (1u << 30) / 96)
      << "what is known of a block takes more than its 64 bytes";
  policy.kv_bytes = size_t(1) << 22;
  EXPECT_EQ(kv_blocks(engine, policy, 1000), 1u << 16) << "though a few do not matter";
  policy.kv_bytes = size_t(1) << 50, policy.max_running = policy.step_tokens = 1u << 30;
  EXPECT_EQ(kv_blocks(engine, policy, 1u << 30), (1u << 31) / 4) << "a slot is a number of 32 bits";
}

TEST(PositionSet, KeepsRangesMergedAndInOrder) {
  const std::vector<msg::PositionRange> ranges{{7, 9}, {2, 4}, {3, 5}, {6, 6}};
  PositionSet set(ranges);
  ASSERT_EQ(set.all().size(), 2u);
  EXPECT_EQ(set.size(), 5u);
  for (uint32_t p = 0; p < 12; ++p) EXPECT_EQ(set.has(p), (p >= 2 && p < 5) || p == 7 || p == 8) << p;
  set.add({5, 7});
  ASSERT_EQ(set.all().size(), 1u);
  set.pop_front(2);
  EXPECT_EQ(set.front().start, 4u);
  EXPECT_EQ(set.size(), 5u);
  set.pop_front(5);
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.size(), 0u);
  EXPECT_FALSE(set.has(0));
}

}  // namespace
}  // namespace weir::generation
