#include "dialects/openai/llama_cpp/shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "marshal/generation_params.h"

namespace weir::openai::llama_cpp {

ApiError ask_for_shares(msg::Generation& generation) {
  constexpr auto kMost = uint32_t(marshal::GenerationParamTable::kTopLogprobs.most);
  constexpr std::string_view kName = "post_sampling_probs";
  const msg::Sampling& s = generation.sampling;
  const bool changed =
      !s.logit_bias.empty() || s.presence_penalty != 0 || s.frequency_penalty != 0 || s.repetition_penalty != 1;
  if (changed || generation.constraint || generation.min_tokens > 0)
    return refuse(kName, "post_sampling_probs: not with penalties, logit_bias or a form of the text");
  const bool greedy = s.temperature <= 0;
  if (!greedy && (s.top_k == 0 || s.top_k > kMost))
    return refuse(kName, "post_sampling_probs: needs temperature 0, or a top_k from 1 to " + std::to_string(kMost));
  generation.top_logprobs = std::max(generation.top_logprobs, greedy ? 1 : s.top_k);
  return {};
}

std::vector<float> final_shares(const msg::Sampling& s, std::span<const msg::TokenLogprob> top) {
  std::vector<float> out(top.size(), 0.0F);
  if (top.empty()) return out;
  if (s.temperature <= 0) return out[0] = 1, out;
  const size_t count = std::min<size_t>(s.top_k, top.size());
  // An engine may tell of a token what is no number: it could not be drawn.
  const auto below = [&](size_t i) {
    const double far = (double(top[i].logprob) - top[0].logprob) / s.temperature;
    return std::isnan(far) ? -std::numeric_limits<double>::infinity() : far;
  };
  double total = 0, sum = 0, kept = 0;
  for (size_t i = 0; i < count; ++i) total += std::exp(below(i));
  size_t end = 0;
  while (end < count && (end == 0 || s.top_p >= 1 || sum < s.top_p * total)) sum += std::exp(below(end++));
  for (size_t i = 0; i < end; ++i) {
    if (s.min_p > 0 && below(i) < std::log(s.min_p)) continue;
    kept += std::exp(below(i));
    out[i] = float(std::exp(below(i)));
  }
  for (float& share : out) {
    const double of_all = share / kept;
    share = std::isfinite(of_all) ? float(of_all) : 0.0F;
  }
  return out;
}

}  // namespace weir::openai::llama_cpp
