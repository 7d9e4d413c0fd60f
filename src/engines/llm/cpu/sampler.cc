#include "engines/llm/cpu/sampler.h"

#include <algorithm>
#include <cmath>

namespace weir::llm {
namespace {

constexpr float kNever = -INFINITY;
constexpr uint32_t kNoToken = UINT32_MAX;

// SplitMix64's finalizer (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint32_t first_largest(std::span<const float> logits, float highest) {
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= highest) return uint32_t(i);
  return kNoToken;
}

}  // namespace

double uniform(uint64_t seed, uint64_t number) {
  uint64_t x = mix(mix(seed + 0x9e3779b97f4a7c15ull) + (number + 1) * 0x9e3779b97f4a7c15ull);
  return double(x >> 11) * 0x1p-53;
}

void Sampler::sample(std::span<const float> logits, generation::TokenStep::LogitsRequest& request) {
  const bool score = request.kind == generation::TokenStep::LogitsRequest::Kind::kScore;
  if (!score) {
    auto changed = adjust(logits, request);
    const auto& sampling = request.params->sampling;
    const float highest = kernels_.maximum(changed.data(), changed.size());
    request.id = !(highest > kNever)         ? kNoToken  // the form allows none, or all logits are NaN
                 : sampling.temperature <= 0 ? first_largest(changed, highest)
                                             : draw(changed, sampling, highest, uniform(request.seed, request.draw));
  }
  if (!score && !request.wants_logprob && request.top == 0) return;
  float highest = kernels_.maximum(logits.data(), logits.size());
  float log_sum = highest + std::log(kernels_.sum_exp(logits.data(), logits.size(), highest));
  request.logprob = request.id < logits.size() ? logits[request.id] - log_sum : kNever;
  find_best(logits, request.top, log_sum, request.best);
}

// A heap of the best so far, the worst of them in front.
void Sampler::find_best(std::span<const float> logits, uint32_t count, float log_sum,
                        std::vector<msg::TokenLogprob>& best) {
  best.clear();
  count = uint32_t(std::min<size_t>(count, logits.size()));
  if (count == 0) return;
  candidates_.clear();
  for (uint32_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] >= kNever)) continue;  // NaN
    Candidate c{logits[i], i};
    if (candidates_.size() < count) {
      candidates_.push_back(c);
      std::push_heap(candidates_.begin(), candidates_.end(), before);
    } else if (before(c, candidates_.front())) {
      std::pop_heap(candidates_.begin(), candidates_.end(), before);
      candidates_.back() = c;
      std::push_heap(candidates_.begin(), candidates_.end(), before);
    }
  }
  std::sort_heap(candidates_.begin(), candidates_.end(), before);
  for (const auto& c : candidates_) best.push_back({c.id, c.logit - log_sum});
}

// The logits themselves when nothing changes them.
std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       const generation::TokenStep::LogitsRequest& request) {
  const msg::Sampling& s = request.params->sampling;
  bool penalties = s.presence_penalty != 0 || s.frequency_penalty != 0 || s.repetition_penalty != 1;
  bool hold = request.hold_eos && (!eos_ids_.empty() || !request.params->stop_ids.empty());
  auto* constraint = request.params->constraint.get();
  if (!penalties && !hold && !constraint && s.logit_bias.empty() && never_.empty()) return logits;
  changed_.assign(logits.begin(), logits.end());
  for (auto [id, bias] : s.logit_bias)
    if (id < changed_.size()) changed_[id] += bias;
  if (penalties) penalize(request);
  auto exclude = [this](std::span<const uint32_t> ids) {
    for (uint32_t id : ids)
      if (id < changed_.size()) changed_[id] = kNever;
  };
  if (hold) exclude(eos_ids_), exclude(request.params->stop_ids);
  exclude(never_);
  if (constraint) keep_allowed(constraint->mask());
  return changed_;
}

void Sampler::keep_allowed(std::span<const uint32_t> mask) {
  for (size_t word = 0; word * 32 < changed_.size(); ++word) {
    const uint32_t bits = word < mask.size() ? mask[word] : 0;
    if (bits == UINT32_MAX) continue;
    const size_t end = std::min(changed_.size(), word * 32 + 32);
    for (size_t id = word * 32; id < end; ++id)
      if (!(bits >> id % 32 & 1)) changed_[id] = kNever;
  }
}

void Sampler::penalize(const generation::TokenStep::LogitsRequest& request) {
  const msg::Sampling& s = request.params->sampling;
  counts_.resize(std::max(counts_.size(), changed_.size()), 0);
  auto each = [&](std::span<const uint32_t> ids, auto&& f) {  // once per different id, with how often it is there
    for (uint32_t id : ids)
      if (id < changed_.size()) ++counts_[id];
    for (uint32_t id : ids)
      if (id < changed_.size() && counts_[id] > 0) f(changed_[id], float(std::exchange(counts_[id], 0)));
  };
  if (s.repetition_penalty != 1)
    each(request.sequence,
         [&](float& logit, float) { logit = logit > 0 ? logit / s.repetition_penalty : logit * s.repetition_penalty; });
  if (s.presence_penalty != 0 || s.frequency_penalty != 0)
    each(request.sequence.subspan(std::min<size_t>(request.prompt, request.sequence.size())),
         [&](float& logit, float count) { logit -= s.presence_penalty + s.frequency_penalty * count; });
}

// The numerator above the temperature is how far a logit lies below the highest: it is 0 for the highest, however small
// the temperature is, and no quotient overflows upwards.
uint32_t Sampler::draw(std::span<const float> logits, const msg::Sampling& s, float highest, double random) {
  if (!(highest < INFINITY)) return first_largest(logits, highest);
  if (s.top_k == 0 && s.top_p >= 1 && s.min_p <= 0) return draw_from_all(logits, s, highest, random);
  gather(logits, s, highest);
  if (s.top_k > 0 && s.top_k < candidates_.size()) keep_best(s.top_k);
  if (s.top_p < 1) {
    double total = 0;
    for (const auto& c : candidates_) total += std::exp(c.logit);
    keep_share(s.top_p, total);
  }
  if (s.min_p > 0) {
    float least = std::log(s.min_p);
    std::erase_if(candidates_, [&](const Candidate& c) { return c.logit < least; });
  }
  return draw_candidate(random);
}

// Without those that cannot be drawn.
void Sampler::gather(std::span<const float> logits, const msg::Sampling& s, float highest) {
  candidates_.clear();
  for (uint32_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kNever) candidates_.push_back({(logits[i] - highest) / s.temperature, i});
}

// The best `count` come to the front, unordered; the others go.
void Sampler::keep_best(size_t count) {
  std::nth_element(candidates_.begin(), candidates_.begin() + ptrdiff_t(count) - 1, candidates_.end(), before);
  candidates_.resize(count);
}

// The fewest candidates whose weights make up `top_p` of the total: the best are put in order a few at a time.
void Sampler::keep_share(float top_p, double total) {
  size_t ordered = 0;
  double sum = 0;
  for (size_t next = 64; ordered < candidates_.size(); next *= 4) {
    size_t end = std::min(ordered + next, candidates_.size());
    auto from = candidates_.begin() + ptrdiff_t(ordered), to = candidates_.begin() + ptrdiff_t(end);
    if (end < candidates_.size()) std::nth_element(from, to, candidates_.end(), before);
    std::sort(from, to, before);
    for (; ordered < end; ++ordered) {
      sum += std::exp(candidates_[ordered].logit);
      if (sum >= top_p * total) return candidates_.resize(ordered + 1);
    }
  }
}

uint32_t Sampler::draw_candidate(double random) {
  std::sort(candidates_.begin(), candidates_.end(), before);
  double total = 0;
  weights_.resize(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) total += weights_[i] = std::exp(candidates_[i].logit);
  double left = random * total;
  for (size_t i = 0; i < candidates_.size(); ++i)
    if ((left -= weights_[i]) < 0) return candidates_[i].id;
  return candidates_.front().id;
}

uint32_t Sampler::draw_from_all(std::span<const float> logits, const msg::Sampling& s, float highest, double random) {
  constexpr size_t kBlock = 1024;
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    float logit = (logits[i] - highest) / s.temperature;
    weights_[i] = logit >= kNever ? logit : kNever;  // NaN is never drawn
  }
  double total = 0;
  std::vector<float>& sums = sums_;
  sums.clear();
  for (size_t i = 0; i < weights_.size(); i += kBlock) {
    size_t n = std::min(kBlock, weights_.size() - i);
    sums.push_back(kernels_.sum_exp(weights_.data() + i, n, 0));
    total += sums.back();
  }
  double left = random * total;
  size_t block = 0;
  while (block + 1 < sums.size() && left >= sums[block]) left -= sums[block++];
  size_t last = logits.size();
  for (size_t i = block * kBlock; i < std::min(weights_.size(), (block + 1) * kBlock); ++i) {
    float weight = std::exp(weights_[i]);
    if (weight > 0) last = i;
    if ((left -= weight) < 0 && weight > 0) return uint32_t(i);
  }
  return last < logits.size() ? uint32_t(last) : first_largest(logits, highest);
}

}  // namespace weir::llm
