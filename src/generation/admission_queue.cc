#include "generation/admission_queue.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "msg/priority.h"

namespace weir::generation {

using base::Code;
using base::Status;
using base::Time;
using Place = Sequence::Place;

Status queue_full(const msg::ModelSpec& spec, const TokenPolicy& policy, size_t waiting) {
  std::string limits = "max_waiting is " + std::to_string(policy.max_waiting);
  if (policy.max_wait > base::Duration(0))
    limits = "max_wait is " + base::show_duration(policy.max_wait) + ", " + limits;
  return base::try_again(Code::kResourceExhausted, "the queue of model '" + spec.name + "' is full (" +
                                                       std::to_string(waiting) + " requests wait; " + limits +
                                                       "); try again later");
}

// A priority that the model does not have means the default one, as in Triton.
void AdmissionQueue::add(msg::Call* call, Time now) {
  auto s = std::make_unique<Sequence>(call, msg::level_of(spec_, call->priority) - 1, ++arrivals_);
  uint64_t random_seed = random_();
  s->seed = s->params.sampling.seed.value_or(random_seed);
  s->queue_deadline = msg::leaves_at(msg::queue_policy(spec_, s->level + 1), call->queue_timeout, now);
  s->places = all_.size();
  s->tag = share_.came(s->level, call->tenant, s->work());
  insert(std::move(s));
}

AdmissionQueue::LargestTenant AdmissionQueue::largest_tenant() const {
  std::unordered_map<uint64_t, size_t> calls;
  LargestTenant most;
  for (const auto& s : all_)
    if (size_t n = s->started ? 0 : ++calls[s->call->tenant]; n > most.calls) most = {s->call->tenant, n};
  return most;
}

Sequence* AdmissionQueue::surplus(size_t active) const {
  if (all_.size() <= most_waiting(active)) return nullptr;
  auto largest = largest_tenant();
  auto last = std::find_if(all_.rbegin(), all_.rend(),
                           [&](const auto& s) { return !s->started && s->call->tenant == largest.tenant; });
  return largest.calls == 0 || last == all_.rend() ? nullptr : last->get();
}

Time AdmissionQueue::leaves_at() const {
  Time first = base::kNever;
  for (const auto& s : all_)
    first = std::min({first, s->call->deadline, s->started ? base::kNever : s->queue_deadline});
  return first;
}

// In order, without overtaking: a call for which there are no blocks holds up the rest. Calls that nobody reads are
// passed over. Where all slots are taken, the first call of a tenant may have one of a less urgent sequence, or one
// that another tenant has beyond its share. How much of earlier prompts is still to be computed does not matter: steps
// are shared (PrefillShares).
Sequence* AdmissionQueue::admit_next(Pass& pass, ActiveSequences& active) {
  for (; pass.at < all_.size(); ++pass.at) {
    auto& s = *all_[pass.at];
    if (!may_try(s, pass, active)) continue;
    while (!take_blocks(s, pass, active))
      if (pass.preempts == Pass::Preempts::kNo || !active.preempt_over_share(s, ActiveSequences::Scarce::kBlocks))
        return nullptr;
    Owned owned = std::move(all_[pass.at]);
    all_.erase(all_.begin() + ptrdiff_t(pass.at));
    active.move_preempted(*this);
    active.insert(std::move(owned));
    s.place = Place::kActive;
    s.blocks_lacked = 0;
    if (!s.started) share_.began(s.level, s.tag, s.work());
    return &s;
  }
  return nullptr;
}

bool AdmissionQueue::may_try(const Sequence& s, Pass& pass, ActiveSequences& active) const {
  if (s.place != Place::kWaiting || s.parked() || s.call->tenant == pass.no_slot) return false;
  if (active.running() < policy_.max_running) return true;
  if (pass.preempts == Pass::Preempts::kYes &&
      (active.preempt_less_urgent(s) || active.preempt_over_share(s, ActiveSequences::Scarce::kSlots)))
    return true;
  pass.no_slot = s.call->tenant;
  return false;
}

bool AdmissionQueue::take_blocks(Sequence& s, const Pass& pass, ActiveSequences& active) {
  using Claim = ActiveSequences::Claim;
  const auto claim = pass.preempts == Pass::Preempts::kYes ? Claim::kAdmit : Claim::kAtRest;
  while (memory_.blocks().available() < s.blocks_lacked)
    if (!active.free_blocks(s, claim)) return false;
  uint32_t before = memory_.blocks().available();
  bool feeds_last = s.draws(limit_) || s.held_details || s.is(msg::Aim::kEmbed);
  memory_.attach(s, s.length() - (feeds_last ? 1 : 0));
  s.find_recomputes();
  uint32_t found = before - std::min(before, memory_.blocks().available());
  if (!make_room(s, claim, active)) {
    s.blocks_lacked = memory_.lacking(s) + found;
    give_back(s);
    return false;
  }
  memory_.fill(s);
  return true;
}

// Running sequences will want a block each before long; to let one in and to preempt it at once helps nobody. Sessions
// at rest give up blocks for that, too: else those of a full cache would keep out all but the first few.
bool AdmissionQueue::make_room(Sequence& s, ActiveSequences::Claim claim, ActiveSequences& active) {
  const auto& blocks = memory_.blocks();
  while (blocks.available() < memory_.lacking(s))
    if (!active.free_blocks(s, claim)) {
      if (!active.none_active()) return false;
      // Alone with all blocks: what it found costs more than it saves (a copy, a block for recomputation).
      memory_.release(s);
      s.recomputes = {};
    }
  while (blocks.available() < memory_.lacking(s) + active.running())
    if (!active.free_blocks(s, ActiveSequences::Claim::kAtRest)) return false;
  return true;
}

void AdmissionQueue::give_back(Sequence& s) {
  s.recomputes = {};
  if (s.resides() && !s.started && s.keeps_session)
    memory_.keep(s);
  else
    memory_.release(s);
}

}  // namespace weir::generation
