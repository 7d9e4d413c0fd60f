#include "engines/llm/cuda/sampling_plan.h"

#include <algorithm>

namespace weir::llm::cuda {
namespace {

using LogitsRequest = generation::TokenStep::LogitsRequest;

bool has_penalties(const msg::Sampling& s) {
  return s.presence_penalty != 0 || s.frequency_penalty != 0 || s.repetition_penalty != 1;
}

bool holds_ends(const LogitsRequest& request, std::span<const uint32_t> eos_ids) {
  return request.hold_eos && (!eos_ids.empty() || !request.params->stop_ids.empty());
}

}  // namespace

// Something changes this draw's logits.
bool SamplingPlan::is_adjusted(const LogitsRequest& request) const {
  const auto& s = request.params->sampling;
  return request.params->constraint || has_penalties(s) || !s.logit_bias.empty() || !never_.empty() ||
         holds_ends(request, eos_ids_);
}

void SamplingPlan::clear() {
  groups.clear(), ids.clear(), draws.clear(), from.clear(), to.clear();
  adjusts.clear(), changes.clear(), masked.clear(), logprobs.clear();
  most = 0, scores = follows = false;
}

void SamplingPlan::plan(std::span<const LogitsRequest> logits_requests, std::span<const uint32_t> fed) {
  clear();
  for (const auto& request : logits_requests) {
    bool score = request.kind == LogitsRequest::Kind::kScore;
    scores |= score;
    ids.push_back(score ? request.id : 0);
    most = std::max(most, std::min(request.top, kMostTop));
  }
  for (uint32_t first = 0; first < logits_requests.size(); first += at_once_)
    plan_group(logits_requests, fed, {first, std::min(at_once_, uint32_t(logits_requests.size()) - first)});
}

void SamplingPlan::plan_group(std::span<const LogitsRequest> logits_requests, std::span<const uint32_t> fed,
                              Range range) {
  LogitsGroup group;
  group.requests = range;
  auto for_draws = [&](auto&& each) {
    for (uint32_t i = 0; i < range.count; ++i)
      if (const auto& request = logits_requests[range.first + i]; request.kind == LogitsRequest::Kind::kSample)
        each(request, i);
  };
  group.draws.first = uint32_t(draws.size());
  for_draws([&](const LogitsRequest& request, uint32_t i) {
    if (!is_adjusted(request)) add_draw(request, i, range.first + i);
  });
  group.draws.count = uint32_t(draws.size()) - group.draws.first;
  group.first_adjusted = uint32_t(draws.size());
  for_draws([&](const LogitsRequest& request, uint32_t i) {
    if (!is_adjusted(request)) return;
    if (group.adjusts.empty() || group.adjusts.back().count == kAdjustedAtOnce)
      group.adjusts.push_back({uint32_t(adjusts.size()), 0});
    add_draw(request, kAdjusted | group.adjusts.back().count++, range.first + i);
    add_adjust(request, fed, i);
  });
  group.logprobs.first = uint32_t(logprobs.size());
  for (uint32_t i = 0; i < range.count; ++i) {
    const auto& request = logits_requests[range.first + i];
    if (request.kind == LogitsRequest::Kind::kScore || request.wants_logprob || request.top > 0)
      logprobs.push_back({i, range.first + i, std::min(request.top, kMostTop)});
  }
  group.logprobs.count = uint32_t(logprobs.size()) - group.logprobs.first;
  groups.push_back(std::move(group));
}

void SamplingPlan::add_draw(const LogitsRequest& request, uint32_t at, uint32_t request_index) {
  const auto& s = request.params->sampling;
  draws.push_back({s.temperature, s.top_p, s.min_p, s.top_k, request.seed, request.draw});
  from.push_back(at), to.push_back(request_index);
}

Change& SamplingPlan::change(uint32_t id) {
  if (entry_[id] == kNone) entry_[id] = uint32_t(changes.size()), changes.push_back({id, 0, 0.f, 0});
  return changes[entry_[id]];
}

// As the CPU engine's sampler: the repetition penalty is over all of the sequence, the others over what was generated.
void SamplingPlan::add_adjust(const LogitsRequest& request, std::span<const uint32_t> fed, uint32_t row) {
  const auto& s = request.params->sampling;
  auto first = uint32_t(changes.size());
  auto known = [this](uint32_t id) { return id < vocabulary_; };
  for (auto [id, bias] : s.logit_bias)
    if (known(id)) change(id).bias += bias;
  if (s.repetition_penalty != 1)
    for (uint32_t id : request.sequence)
      if (known(id)) change(id).flags |= Change::kWasThere;
  if (s.presence_penalty != 0 || s.frequency_penalty != 0)
    for (uint32_t id : request.sequence.subspan(std::min<size_t>(request.prompt, request.sequence.size())))
      if (known(id)) ++change(id).generated;
  auto exclude = [&](std::span<const uint32_t> excluded) {
    for (uint32_t id : excluded)
      if (known(id)) change(id).flags |= Change::kNever;
  };
  if (holds_ends(request, eos_ids_)) exclude(eos_ids_), exclude(request.params->stop_ids);
  exclude(never_);
  for (auto i = size_t(first); i < changes.size(); ++i) entry_[changes[i].id] = kNone;
  adjusts.push_back(
      {row, first, uint32_t(changes.size()) - first, s.presence_penalty, s.frequency_penalty, s.repetition_penalty});
  if (auto* constraint = request.params->constraint.get()) {
    adjusts.back().mask = uint32_t(masked.size() * mask_words(vocabulary_));
    masked.push_back(constraint);
  }
  constexpr uint32_t kSampledId = generation::TokenStep::kSampled;
  if (!has_penalties(s) || request.token >= fed.size() || !(fed[request.token] & kSampledId)) return;
  adjusts.back().last = fed[request.token] & ~kSampledId;
  follows = true;
}

void SamplingPlan::write_masks(uint32_t* to) const {
  const size_t words = mask_words(vocabulary_);
  for (auto* constraint : masked) {
    const auto mask = constraint->mask();
    const size_t count = std::min(mask.size(), words);
    std::copy_n(mask.begin(), count, to);
    std::fill(to + count, to + words, 0u);  // what it has no bit for does not come
    to += words;
  }
}

}  // namespace weir::llm::cuda
