// Temperatures down to nothing: the nearer to 0, the surer the first of the largest.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engines/llm/cpu/sampler.h"

namespace weir::llm {
namespace {

using LogitsRequest = generation::TokenStep::LogitsRequest;

uint32_t draw(const msg::Sampling& sampling, const std::vector<float>& logits, uint64_t number) {
  static const std::vector<uint32_t> eos;
  msg::Generation params;
  params.sampling = sampling;
  LogitsRequest request;
  request.params = &params;
  request.seed = 5, request.draw = number;
  Sampler(kernels(), eos).sample(logits, request);
  return request.id;
}

const float kDenormal = std::numeric_limits<float>::denorm_min(), kNormal = std::numeric_limits<float>::min();

TEST(Temperature, NextToNothingIsLikeNothing) {
  std::vector<std::vector<float>> cases{
      {1, 2, 30.5f, 30.25f, -4, -INFINITY, NAN}, {-50, -40.5f, -41, -300}, {0, -1e-3f, -2e-3f}, {3e38f, -3e38f, 1}};
  cases.emplace_back(5000, -7.0f);
  cases.back()[3333] = 60;
  for (const auto& logits : cases)
    for (float temperature : {1e-6f, 1e-30f, kNormal, 1e-40f, kDenormal})
      for (auto [top_k, top_p, min_p] :
           {std::tuple{0u, 1.0f, 0.0f}, {3u, 1.0f, 0.0f}, {0u, 0.9f, 0.0f}, {0u, 1.0f, 0.1f}, {2u, 0.5f, 0.5f}})
        for (uint64_t number = 0; number < 5; ++number) {
          msg::Sampling s;
          s.top_k = top_k, s.top_p = top_p, s.min_p = min_p;
          s.temperature = 0;
          uint32_t greedy = draw(s, logits, number);
          s.temperature = temperature;
          EXPECT_EQ(draw(s, logits, number), greedy)
              << "temperature " << temperature << " top_k " << top_k << " top_p " << top_p << " min_p " << min_p;
        }
}

TEST(Temperature, NextToNothingLetsEqualsShare) {
  msg::Sampling s;
  s.temperature = kDenormal;
  int first = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    uint32_t id = draw(s, {20, 7, 20}, i);
    ASSERT_NE(id, 1u);
    first += id == 0;
  }
  EXPECT_NEAR(first, 200, 60);
}

TEST(Temperature, BeyondAllMeasureDrawsFromAllAlike) {
  msg::Sampling s;
  s.temperature = 1e6f;
  int first = 0;
  for (uint64_t i = 0; i < 400; ++i) first += draw(s, {-10, 10}, i) == 0;
  EXPECT_NEAR(first, 200, 60);
}

}  // namespace
}  // namespace weir::llm
