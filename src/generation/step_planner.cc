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
  load_ = {};
}

TokenStep* StepPlanner::plan() {
  uint32_t budget = policy_.step_tokens;
  plan_decodes(budget);
  load_.decodes = uint32_t(rows_.runs.size());
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
    while (!room && active_.free_blocks(*s, ActiveSequences::Claim::kGrow)) room = memory_.grow(*s);
    if (!room) {
      active_.preempt(*s);
      continue;
    }
    rows_.add({TokenRun::Kind::kFeed, s.get(), s->stored, 1});
    --budget;
  }
}

// Their blocks were taken when they were admitted.
void StepPlanner::plan_prefills(uint32_t budget) {
  if (budget == 0) return;
  prompts_.clear();
  for (auto& s : active_) {
    if (!runs(*s) || (s->unfed() == 1 && s->recomputes.empty())) continue;
    prompts_.push_back({s.get(), s->unfed() + s->recomputes.size()});
    load_.context = std::max(load_.context, s->stored);
  }
  if (prompts_.empty()) return;
  budget = std::min(budget, budget_.prefill_tokens(load_.decodes, load_.context));
  shares_.share(prompts_, budget);
  uint32_t left = budget;
  for (auto& prompt : prompts_)
    if (prompt.given > 0) left -= plan_prefill(*prompt.sequence, prompt.given);
  // Some take less than they are given, since their peers have no credit for more.
  for (auto& prompt : prompts_)
    if (left > 0 && prompt.given == 0) left -= plan_prefill(*prompt.sequence, left);
  load_.prefill = budget - left;
}

// Returns how many tokens of it are in the step, of `most` at most.
uint32_t StepPlanner::plan_prefill(Sequence& s, uint32_t most) {
  uint32_t budget = most;
  uint64_t recomputes = s.recomputes.size();
  if (recomputes > 0) recompute(s, budget);
  uint32_t count = std::min(s.unfed(), budget);
  if (recomputes > most - budget || count == 0) return most - budget;  // what was asked for earlier comes first
  count = allowed(s, s.stored, count);
  rows_.add({TokenRun::Kind::kFeed, &s, s.stored, count});
  return most - budget + count;
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

// A step that ran ahead began when the one before it ended.
void StepPlanner::measure(Time now) {
  budget_.record(load_, now - std::max(planned_, measured_));
  measured_ = now;
}

void StepPlanner::advance() {
  rows_.clear();
  planned_ = ahead_.take(rows_);
  load_ = {uint32_t(rows_.runs.size()), 0, 0};
}

}  // namespace weir::generation
