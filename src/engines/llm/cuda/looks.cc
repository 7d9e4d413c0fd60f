#include "engines/llm/cuda/looks.h"

#include <algorithm>

namespace weir::llm::cuda {
namespace {

using Look = sched::TokenStep::Look;

bool has_penalties(const msg::Sampling& s) {
  return s.presence_penalty != 0 || s.frequency_penalty != 0 || s.repetition_penalty != 1;
}

bool holds_ends(const Look& look, std::span<const uint32_t> eos_ids) {
  return look.hold_eos && (!eos_ids.empty() || !look.wish->stop_ids.empty());
}

}  // namespace

bool is_adjusted(const Look& look, std::span<const uint32_t> eos_ids) {
  const auto& s = look.wish->sampling;
  return has_penalties(s) || !s.logit_bias.empty() || holds_ends(look, eos_ids);
}

void LookPlan::clear() {
  groups.clear(), ids.clear(), wishes.clear(), from.clear(), to.clear();
  adjusts.clear(), changes.clear(), logprobs.clear();
  most = 0, scores = follows = false;
}

void LookPlan::plan(std::span<const Look> looks, std::span<const uint32_t> fed) {
  clear();
  for (const auto& look : looks) {
    bool score = look.kind == Look::Kind::kScore;
    scores |= score;
    ids.push_back(score ? look.id : 0);
    most = std::max(most, std::min(look.top, kMostTop));
  }
  for (uint32_t first = 0; first < looks.size(); first += at_once_)
    plan_group(looks, fed, {first, std::min(at_once_, uint32_t(looks.size()) - first)});
}

void LookPlan::plan_group(std::span<const Look> looks, std::span<const uint32_t> fed, Range range) {
  LookGroup group;
  group.looks = range;
  auto draws = [&](auto&& each) {
    for (uint32_t i = 0; i < range.count; ++i)
      if (const auto& look = looks[range.first + i]; look.kind == Look::Kind::kDraw) each(look, i);
  };
  group.draws.first = uint32_t(wishes.size());
  draws([&](const Look& look, uint32_t i) {
    if (!is_adjusted(look, eos_ids_)) add_draw(look, i, range.first + i);
  });
  group.draws.count = uint32_t(wishes.size()) - group.draws.first;
  group.first_adjusted = uint32_t(wishes.size());
  draws([&](const Look& look, uint32_t i) {
    if (!is_adjusted(look, eos_ids_)) return;
    if (group.adjusts.empty() || group.adjusts.back().count == kAdjustedAtOnce)
      group.adjusts.push_back({uint32_t(adjusts.size()), 0});
    add_draw(look, kAdjusted | group.adjusts.back().count++, range.first + i);
    add_adjust(look, fed, i);
  });
  group.logprobs.first = uint32_t(logprobs.size());
  for (uint32_t i = 0; i < range.count; ++i) {
    const auto& look = looks[range.first + i];
    if (look.kind == Look::Kind::kScore || look.wants_logprob || look.top > 0)
      logprobs.push_back({i, range.first + i, std::min(look.top, kMostTop)});
  }
  group.logprobs.count = uint32_t(logprobs.size()) - group.logprobs.first;
  groups.push_back(std::move(group));
}

void LookPlan::add_draw(const Look& look, uint32_t at, uint32_t look_index) {
  const auto& s = look.wish->sampling;
  wishes.push_back({s.temperature, s.top_p, s.min_p, s.top_k, look.seed, look.draw});
  from.push_back(at), to.push_back(look_index);
}

Change& LookPlan::change(uint32_t id) {
  if (entry_[id] == kNone) entry_[id] = uint32_t(changes.size()), changes.push_back({id, 0, 0.f, 0});
  return changes[entry_[id]];
}

// As the CPU engine's sampler: the repetition penalty is over all of the sequence, the others over what was generated.
void LookPlan::add_adjust(const Look& look, std::span<const uint32_t> fed, uint32_t row) {
  const auto& s = look.wish->sampling;
  auto first = uint32_t(changes.size());
  auto known = [this](uint32_t id) { return id < vocabulary_; };
  for (auto [id, bias] : s.logit_bias)
    if (known(id)) change(id).bias += bias;
  if (s.repetition_penalty != 1)
    for (uint32_t id : look.sequence)
      if (known(id)) change(id).flags |= Change::kWasThere;
  if (s.presence_penalty != 0 || s.frequency_penalty != 0)
    for (uint32_t id : look.sequence.subspan(std::min<size_t>(look.prompt, look.sequence.size())))
      if (known(id)) ++change(id).generated;
  if (holds_ends(look, eos_ids_))
    for (auto ends : {eos_ids_, std::span<const uint32_t>(look.wish->stop_ids)})
      for (uint32_t id : ends)
        if (known(id)) change(id).flags |= Change::kNever;
  for (auto i = size_t(first); i < changes.size(); ++i) entry_[changes[i].id] = kNone;
  adjusts.push_back(
      {row, first, uint32_t(changes.size()) - first, s.presence_penalty, s.frequency_penalty, s.repetition_penalty});
  constexpr uint32_t kDrawnId = sched::TokenStep::kDrawn;
  if (!has_penalties(s) || look.token >= fed.size() || !(fed[look.token] & kDrawnId)) return;
  adjusts.back().last = fed[look.token] & ~kDrawnId;
  follows = true;
}

}  // namespace weir::llm::cuda
