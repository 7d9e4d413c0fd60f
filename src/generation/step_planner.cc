#include "generation/step_planner.h"

#include <algorithm>

namespace weir::generation {
namespace {

using base::Time;
using Place = Sequence::Place;

bool runs(const Sequence& s) { return s.place == Place::kActive && !s.planned && s.images_missing == 0 && !s.parked(); }

// No more positions than the peer has credit for their events.
uint32_t allowed(const Sequence& s, uint32_t from, uint32_t count) {
  if (s.scores.empty() && s.readouts.empty()) return count;
  int32_t credit = s.call->credit.load(std::memory_order_acquire);
  for (uint32_t p = from; p < from + count; ++p)
    if (s.has_pending_details(p) && --credit <= 0) return p + 1 - from;
  return count;
}

}  // namespace

void StepPlanner::begin(Time now) {
  rows_.clear();
  planned_ = now;
}

TokenStep* StepPlanner::plan() {
  uint32_t budget = policy_.step_tokens;
  plan_decodes(budget);
  plan_prefills(budget);
  if (rows_.runs.empty()) return nullptr;
  for (auto& run : rows_.runs) {
    auto& times = run.sequence->call->times;
    if (times.computing == base::kNever) times.computing = planned_;
    times.batch_rows = uint32_t(rows_.runs.size());
  }
  return &rows_.step;
}

void StepPlanner::plan_decodes(uint32_t& budget) {
  for (auto& s : active_) {
    if (budget == 0) return;
    if (!runs(*s) || s->unfed() != 1 || !s->recomputes.empty()) continue;
    bool room = memory_.grow(*s);
    while (!room && active_.relieve(*s, ActiveSequences::Claim::kGrow)) room = memory_.grow(*s);
    if (!room) {
      active_.preempt(*s);
      continue;
    }
    rows_.add({TokenRun::Kind::kFeed, s.get(), s->stored, 1});
    --budget;
  }
}

// Their blocks were taken when they were admitted.
void StepPlanner::plan_prefills(uint32_t& budget) {
  for (auto& s : active_) {
    if (budget == 0) return;
    if (!runs(*s) || (s->unfed() == 1 && s->recomputes.empty())) continue;
    uint64_t recomputes = s->recomputes.size(), left = budget;
    if (recomputes > 0) recompute(*s, budget);
    uint32_t count = std::min(s->unfed(), budget);
    if (recomputes > left - budget || count == 0) continue;  // what was asked for earlier comes first
    count = allowed(*s, s->stored, count);
    rows_.add({TokenRun::Kind::kFeed, s.get(), s->stored, count});
    budget -= count;
  }
}

void StepPlanner::recompute(Sequence& s, uint32_t& budget) {
  auto range = s.recomputes.front();
  uint32_t inside = range.start % block_size_;
  uint32_t count = allowed(s, range.start, std::min(range.end - range.start, budget));
  memory_.widen_scratch(s, (inside + count + block_size_ - 1) / block_size_);
  count = std::min(count, uint32_t(s.scratch.size()) * block_size_ - inside);
  if (inside > 0) engine_.copy_block(s.blocks[range.start / block_size_], s.scratch[0], inside);
  rows_.add({TokenRun::Kind::kRecompute, &s, range.start, count});
  budget -= count;
}

void StepPlanner::advance() {
  rows_.clear();
  planned_ = ahead_.take(rows_);
}

}  // namespace weir::generation
