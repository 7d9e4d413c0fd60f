// What TokenScheduler does for each step: who gets which part of it, and who gives up blocks for that.
#include <algorithm>
#include <utility>

#include "generation/holdings.h"
#include "generation/scheduler.h"

namespace weir::generation {

using base::Time;
using Place = Sequence::Place;

// Whose blocks go next: of parked sequences and of those that may be preempted, the last in order.
Sequence* TokenScheduler::victim(const Sequence& claimant, Claim claim) const {
  Sequence *parked = nullptr, *last = nullptr;
  for (const auto& s : active_) {
    if (s.get() == &claimant || s->planned || s->place != Place::kActive || s->blocks.empty()) continue;
    if (s->parked())
      parked = s.get();
    else if (claim == Claim::kGrow ? claimant.precedes(*s) : s->level > claimant.level)
      last = s.get();
  }
  return parked ? parked : last;
}

bool TokenScheduler::relieve(const Sequence& claimant, Claim claim) {
  if (memory_.evict()) return true;
  auto* s = victim(claimant, claim);
  if (s) preempt(*s);
  return s != nullptr;
}

// The youngest sequence of whoever has most slots, or blocks, and more than its share of them.
Sequence* TokenScheduler::over_share(const Sequence& claimant, Scarce what) const {
  bool slots = what == Scarce::kSlots;
  TenantHoldings holdings(slots ? policy_.max_running : room_.blocks, policy_.share);
  auto holds = [slots](const Sequence& s) -> uint64_t {
    if (s.place != Place::kActive) return 0;
    return slots ? !s.parked() : s.blocks.size();
  };
  for (const auto& s : active_)
    if (uint64_t n = holds(*s); n > 0) holdings.add(s->call->tenant, n);
  auto tenant = holdings.gives_way(claimant.call->tenant, slots ? 1 : claimant.wanted);
  if (!tenant) return nullptr;
  auto last = std::find_if(active_.rbegin(), active_.rend(), [&](const auto& s) {
    return s->call->tenant == *tenant && s->level >= claimant.level && holds(*s) > 0;
  });
  return last == active_.rend() ? nullptr : last->get();
}

bool TokenScheduler::make_way(const Sequence& claimant, Scarce what) {
  auto* s = over_share(claimant, what);
  if (s) preempt(*s);
  return s != nullptr;
}

void TokenScheduler::preempt(Sequence& s) {
  memory_.release(s);
  s.reviews = {}, s.ahead = {};
  s.pool.clear();
  for (auto& state : s.image_states) state.features = {}, state.seen = state.wanted = false, state.job = 0;
  s.unseen = 0;
  s.place = Place::kEvicted;
  tokens_.preemptions.add();
}

void TokenScheduler::settle_evicted() {
  for (auto& s : active_) {
    if (s->place != Place::kEvicted) continue;
    s->place = Place::kWaiting;
    insert(waiting_, std::move(s));
  }
  std::erase(active_, nullptr);
}

TokenStep* TokenScheduler::plan(Time now) {
  rows_.clear();
  planned_ = now;
  sweep(now);
  admit_waiting(now);
  push_out(now);
  uint32_t budget = policy_.step_tokens;
  plan_decodes(budget);
  plan_prefills(budget);
  settle_evicted();
  gauge();
  if (rows_.runs.empty()) return nullptr;
  for (auto& run : rows_.runs) {
    auto& times = run.sequence->call->times;
    if (times.computing == base::kNever) times.computing = now;
    times.batch_rows = uint32_t(rows_.runs.size());
  }
  return &rows_.step;
}

void TokenScheduler::plan_decodes(uint32_t& budget) {
  for (auto& s : active_) {
    if (budget == 0) return;
    if (!runs(*s) || s->unfed() != 1 || !s->reviews.empty()) continue;
    bool room = memory_.grow(*s);
    while (!room && relieve(*s, Claim::kGrow)) room = memory_.grow(*s);
    if (!room) {
      preempt(*s);
      continue;
    }
    rows_.add({TokenRun::Kind::kFeed, s.get(), s->stored, 1});
    --budget;
  }
}

// Their blocks were taken when they were admitted.
void TokenScheduler::plan_prefills(uint32_t& budget) {
  for (auto& s : active_) {
    if (budget == 0) return;
    if (!runs(*s) || (s->unfed() == 1 && s->reviews.empty())) continue;
    uint64_t reviews = s->reviews.size(), left = budget;
    if (reviews > 0) review(*s, budget);
    uint32_t count = std::min(s->unfed(), budget);
    if (reviews > left - budget || count == 0) continue;  // what was asked for earlier comes first
    count = allowed(*s, s->stored, count);
    rows_.add({TokenRun::Kind::kFeed, s.get(), s->stored, count});
    budget -= count;
  }
}

void TokenScheduler::review(Sequence& s, uint32_t& budget) {
  auto range = s.reviews.front();
  uint32_t size = room_.block_size, inside = range.start % size;
  uint32_t count = allowed(s, range.start, std::min(range.end - range.start, budget));
  memory_.widen_scratch(s, (inside + count + size - 1) / size);
  count = std::min(count, uint32_t(s.scratch.size()) * size - inside);
  if (inside > 0) engine_.copy_block(s.blocks[range.start / size], s.scratch[0], inside);
  rows_.add({TokenRun::Kind::kReview, &s, range.start, count});
  budget -= count;
}

// No more positions than the peer has room to hear of.
uint32_t TokenScheduler::allowed(const Sequence& s, uint32_t from, uint32_t count) const {
  if (s.scores.empty() && s.readouts.empty()) return count;
  int32_t credit = s.call->credit.load(std::memory_order_acquire);
  for (uint32_t p = from; p < from + count; ++p)
    if (s.has_pending_details(p) && --credit <= 0) return p + 1 - from;
  return count;
}

}  // namespace weir::generation
