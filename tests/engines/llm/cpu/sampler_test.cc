// From logits to a token.
#include "engines/llm/cpu/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace weir::llm {
namespace {

using LogitsRequest = generation::TokenStep::LogitsRequest;

struct Draws {
  msg::Generation params;
  LogitsRequest request;
  std::vector<uint32_t> eos{2};
  Sampler sampler{kernels(), eos};

  Draws() { request.params = &params; }
  uint32_t draw(const std::vector<float>& logits, uint64_t number = 0) {
    request.draw = number;
    sampler.sample(logits, request);
    return request.id;
  }
  // How often each id comes up in `count` draws.
  std::map<uint32_t, int> counts(const std::vector<float>& logits, int count) {
    std::map<uint32_t, int> out;
    for (int i = 0; i < count; ++i) ++out[draw(logits, uint64_t(i))];
    return out;
  }
};

TEST(Sampler, TemperatureZeroTakesTheFirstOfTheLargest) {
  Draws d;
  d.params.sampling.temperature = 0;
  EXPECT_EQ(d.draw({1, 5, 2, 5}), 1u);
  EXPECT_EQ(d.draw({NAN, -1, -2}), 1u);
}

TEST(Sampler, LogitsThatAreNotNumbersGiveNoToken) {
  Draws d;
  for (float temperature : {0.f, 1.f})
    for (float top_p : {1.f, 0.9f}) {
      d.params.sampling.temperature = temperature, d.params.sampling.top_p = top_p;
      EXPECT_EQ(d.draw(std::vector<float>(40, NAN)), UINT32_MAX) << temperature << ' ' << top_p;
      EXPECT_EQ(d.draw({-INFINITY, NAN}), UINT32_MAX) << temperature << ' ' << top_p;
      EXPECT_EQ(d.draw({NAN, -3, -INFINITY}), 1u) << temperature << ' ' << top_p;
    }
}

TEST(Sampler, APlaceholderIsNeverDrawnAndKeepsItsLogprob) {
  const std::vector<uint32_t> never{1, 99};
  Sampler sampler(kernels(), {}, never);
  msg::Generation params, biased;
  biased.sampling.temperature = 0, biased.sampling.logit_bias = {{1, 100.f}};
  const std::vector<float> logits{std::log(0.1f), std::log(0.8f), std::log(0.1f)};
  LogitsRequest request{.params = &params, .top = 1}, greedy{.params = &biased};
  for (request.draw = 0; request.draw < 1000; ++request.draw) {
    sampler.sample(logits, request);
    ASSERT_NE(request.id, 1u);
  }
  ASSERT_EQ(request.best.size(), 1u);
  EXPECT_EQ(request.best[0].id, 1u);
  EXPECT_NEAR(request.best[0].logprob, std::log(0.8f), 1e-5);
  sampler.sample(logits, greedy);
  EXPECT_EQ(greedy.id, 0u);
  sampler.sample(std::vector<float>{-INFINITY, 1, -INFINITY}, greedy);
  EXPECT_EQ(greedy.id, UINT32_MAX) << "there is no other";
}

TEST(Sampler, DrawsFollowTheProbabilities) {
  Draws d;
  auto counts = d.counts({std::log(0.5f), std::log(0.3f), std::log(0.2f), -INFINITY}, 20000);
  EXPECT_NEAR(counts[0], 10000, 300);
  EXPECT_NEAR(counts[1], 6000, 300);
  EXPECT_EQ(counts[3], 0);
  d.params.sampling.temperature = 0.5f;  // squares the odds
  EXPECT_NEAR(d.counts({std::log(0.5f), std::log(0.25f)}, 20000)[0], 16000, 300);
}

TEST(Sampler, TheSameSeedAndNumberDrawTheSame) {
  Draws a, b;
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(float(i));
  a.request.seed = b.request.seed = 7;
  for (uint64_t i = 100; i-- > 0;) {
    uint32_t first = a.draw(logits, i);
    b.draw(logits, 3 * i);
    EXPECT_EQ(b.draw(logits, i), first);
  }
  b.request.seed = 8;
  int same = 0;
  for (uint64_t i = 0; i < 100; ++i) same += a.draw(logits, i) == b.draw(logits, i);
  EXPECT_LT(same, 10);
}

TEST(Sampler, TopKTopPAndMinPKeepTheBest) {
  Draws d;
  std::vector<float> logits;
  for (float p : {0.05f, 0.4f, 0.1f, 0.25f, 0.2f}) logits.push_back(std::log(p));
  auto kept = [&] {
    std::vector<uint32_t> ids;
    for (auto [id, n] : d.counts(logits, 3000)) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<uint32_t>;
  d.params.sampling.top_k = 2;
  EXPECT_EQ(kept(), (Ids{1, 3}));
  d.params.sampling = {};
  d.params.sampling.top_p = 0.7f;  // 0.4 + 0.25 are not enough
  EXPECT_EQ(kept(), (Ids{1, 3, 4}));
  d.params.sampling.top_p = 0.01f;
  EXPECT_EQ(kept(), (Ids{1}));
  d.params.sampling = {};
  d.params.sampling.min_p = 0.3f;  // of 0.4
  EXPECT_EQ(kept(), (Ids{1, 3, 4}));
  d.params.sampling.top_k = 4, d.params.sampling.top_p = 0.5f, d.params.sampling.min_p = 0.01f;
  EXPECT_EQ(kept(), (Ids{1, 3}));
}

TEST(Sampler, TopPOverALargeVocabularyIsWhatSortingGives) {
  Draws d;
  std::vector<float> logits(50000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = 3 * std::sin(float(i) * 0.7f) + std::cos(float(i) * 1.3f);
  auto sorted = logits;
  std::sort(sorted.rbegin(), sorted.rend());
  double total = 0, sum = 0;
  for (float l : sorted) total += std::exp(l);
  size_t n = 0;
  while (sum < 0.9 * total) sum += std::exp(sorted[n++]);
  d.params.sampling.top_p = 0.9f;
  for (auto [id, times] : d.counts(logits, 300)) EXPECT_GE(logits[id], sorted[n - 1] - 1e-4f);
}

TEST(Sampler, PenaltiesAndBiasesMoveLogits) {
  Draws d;
  d.params.sampling.temperature = 0;
  std::vector<uint32_t> sequence{0, 1, 1};
  d.request.sequence = sequence, d.request.prompt = 1;
  d.params.sampling.repetition_penalty = 2;
  EXPECT_EQ(d.draw({4, 5, 0, 2.6f}), 3u);      // 4/2, 5/2
  EXPECT_EQ(d.draw({-1, -1, -9, -1.5f}), 3u);  // -1 * 2
  d.params.sampling.repetition_penalty = 1;
  d.params.sampling.frequency_penalty = 1;  // of the generated part: id 1 twice
  EXPECT_EQ(d.draw({3.1f, 5, 0, 0}), 0u);
  d.params.sampling.frequency_penalty = 0, d.params.sampling.presence_penalty = 1.5f;
  EXPECT_EQ(d.draw({3.4f, 5, 0, 0}), 1u);
  d.params.sampling.presence_penalty = 0;
  d.params.sampling.logit_bias = {{3, 10.0f}, {99, 5.0f}};
  EXPECT_EQ(d.draw({3, 5, 0, 0}), 3u);
}

TEST(Sampler, HeldBackEndsAreNeverDrawn) {
  Draws d;
  d.params.sampling.temperature = 0;
  d.params.stop_ids = {1};
  d.request.hold_eos = true;
  EXPECT_EQ(d.draw({1, 8, 9, 2}), 3u);
  d.request.hold_eos = false;
  EXPECT_EQ(d.draw({1, 8, 9, 2}), 2u);
}

TEST(Sampler, LogprobsComeFromTheLogitsBeforeAnyChange) {
  Draws d;
  d.params.sampling.temperature = 0;
  d.params.sampling.logit_bias = {{0, 100.0f}};
  d.request.wants_logprob = true, d.request.top = 2;
  std::vector<float> logits{std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  EXPECT_EQ(d.draw(logits), 0u);
  EXPECT_NEAR(d.request.logprob, std::log(0.1f), 1e-5);
  ASSERT_EQ(d.request.best.size(), 2u);
  EXPECT_EQ(d.request.best[0].id, 1u);
  EXPECT_NEAR(d.request.best[1].logprob, std::log(0.3f), 1e-5);
  d.request.kind = LogitsRequest::Kind::kScore, d.request.id = 2, d.request.top = 50, d.request.params = nullptr;
  d.sampler.sample(logits, d.request);
  EXPECT_NEAR(d.request.logprob, std::log(0.3f), 1e-5);
  EXPECT_EQ(d.request.best.size(), 3u);
}

}  // namespace
}  // namespace weir::llm
