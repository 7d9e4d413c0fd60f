#include "generation/active_sequences.h"

#include <algorithm>
#include <utility>

#include "generation/holdings.h"

namespace weir::generation {

using Place = Sequence::Place;

size_t ActiveSequences::running() const {
  return size_t(std::count_if(all_.begin(), all_.end(),
                              [](const auto& s) { return s->place == Place::kActive && !s->parked(); }));
}

bool ActiveSequences::none_active() const {
  return std::none_of(all_.begin(), all_.end(), [](const auto& s) { return s->place == Place::kActive; });
}

bool ActiveSequences::free_blocks(const Sequence& claimant, Claim claim) {
  if (memory_.evict()) return true;
  if (claim == Claim::kAtRest) return false;
  auto* s = victim(claimant, claim);
  if (s) preempt(*s);
  return s != nullptr;
}

// Returns the parked sequence that is last in order; if none is parked, the last one that may be preempted for
// `claimant`.
Sequence* ActiveSequences::victim(const Sequence& claimant, Claim claim) const {
  Sequence *parked = nullptr, *last = nullptr;
  for (const auto& s : all_) {
    if (s.get() == &claimant || s->planned || s->place != Place::kActive || s->blocks.empty()) continue;
    if (s->parked())
      parked = s.get();
    else if (claim == Claim::kGrow ? claimant.precedes(*s) : s->level > claimant.level)
      last = s.get();
  }
  return parked ? parked : last;
}

bool ActiveSequences::preempt_less_urgent(const Sequence& claimant) {
  auto last = std::find_if(all_.rbegin(), all_.rend(),
                           [](const auto& s) { return s->place == Place::kActive && !s->parked(); });
  if (last == all_.rend() || (*last)->level <= claimant.level) return false;
  preempt(**last);
  return true;
}

bool ActiveSequences::preempt_over_share(const Sequence& claimant, Scarce what) {
  auto* s = youngest_over_share(claimant, what);
  if (s) preempt(*s);
  return s != nullptr;
}

// Returns the youngest sequence of the tenant that holds most, if that is more than its share; else null.
Sequence* ActiveSequences::youngest_over_share(const Sequence& claimant, Scarce what) const {
  const bool slots = what == Scarce::kSlots;
  TenantHoldings holdings(slots ? policy_.max_running : room_.blocks, policy_.share);
  auto holds = [slots](const Sequence& s) -> uint64_t {
    if (s.place != Place::kActive) return 0;
    return slots ? !s.parked() : s.blocks.size();
  };
  for (const auto& s : all_)
    if (uint64_t n = holds(*s); n > 0) holdings.add(s->call->tenant, n);
  auto tenant = holdings.gives_way(claimant.call->tenant, slots ? 1 : claimant.blocks_lacked);
  if (!tenant) return nullptr;
  auto last = std::find_if(all_.rbegin(), all_.rend(), [&](const auto& s) {
    return s->call->tenant == *tenant && s->level >= claimant.level && holds(*s) > 0;
  });
  return last == all_.rend() ? nullptr : last->get();
}

void ActiveSequences::preempt(Sequence& s) {
  memory_.release(s);
  s.forget_computed();
  s.place = Place::kPreempted, s.preempted = true;
  stats_.preemptions.add();
}

void ActiveSequences::move_preempted(SequenceList& waiting) {
  for (auto& s : all_) {
    if (s->place != Place::kPreempted) continue;
    s->place = Place::kWaiting;
    waiting.insert(std::move(s));
  }
  std::erase(all_, nullptr);
}

}  // namespace weir::generation
