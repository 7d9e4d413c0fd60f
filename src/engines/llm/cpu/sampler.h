// Sampler: from logits to a token, and to logprobs. One per thread; it keeps its buffers.
//
// The token that is drawn depends on the logits, the sampling parameters, the seed and the number of the draw alone.
// Where no logit is above -inf (a form allows no token, or all are NaN) there is none: its id is UINT32_MAX.
// The vocabulary is never sorted: what top_k and top_p keep is selected, and only that is put in order.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engines/llm/cpu/kernels.h"
#include "generation/engine.h"

namespace weir::llm {

class Sampler {
 public:
  // Those of `never` are not drawn.
  Sampler(const Kernels& kernels, std::span<const uint32_t> eos_ids, std::span<const uint32_t> never = {})
      : kernels_(kernels), eos_ids_(eos_ids), never_(never) {}

  // Fills the LogitsRequest: id (kSample), logprob and best where they are wanted.
  void sample(std::span<const float> logits, generation::TokenStep::LogitsRequest& request);

 private:
  struct Candidate {
    float logit;  // as it is, or below the highest one in units of the temperature
    uint32_t id;
  };
  // Higher logits first, then lower ids.
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }

  void find_best(std::span<const float> logits, uint32_t count, float log_sum, std::vector<msg::TokenLogprob>& best);
  std::span<const float> adjust(std::span<const float> logits, const generation::TokenStep::LogitsRequest& request);
  void keep_allowed(std::span<const uint32_t> mask);
  void penalize(const generation::TokenStep::LogitsRequest& request);
  uint32_t draw(std::span<const float> logits, const msg::Sampling& sampling, float highest, double random);
  uint32_t draw_from_all(std::span<const float> logits, const msg::Sampling& sampling, float highest, double random);
  void gather(std::span<const float> logits, const msg::Sampling& sampling, float highest);
  void keep_best(size_t count);
  void keep_share(float top_p, double total);
  uint32_t draw_candidate(double random);

  const Kernels& kernels_;
  std::span<const uint32_t> eos_ids_, never_;  // borrowed
  std::vector<float> changed_, weights_, sums_;
  std::vector<uint32_t> counts_;  // per id; zero between calls
  std::vector<Candidate> candidates_;
};

// Uniform in [0, 1): the `number`th of the generator `seed`. Any number at once, without those before.
double uniform(uint64_t seed, uint64_t number);

}  // namespace weir::llm
