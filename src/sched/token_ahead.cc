// What TokenScheduler lays out behind a step that still runs.
//
// Only decoding runs ahead: a sequence's next position is fed before its token is known here, since the engine has
// drawn it. If the token ends the sequence, what was computed behind it is thrown away: its keys and values lie beyond
// what the sequence has stored, in blocks that nobody else is given before that step was submitted.
#include <algorithm>

#include "base/check.h"
#include "sched/token_scheduler.h"

namespace weir::sched {

using base::Time;

// Nobody waits for what only plan() does: nobody can be let in, leaves, or was left out of the last step.
bool TokenScheduler::calm(Time now) const {
  if (!waiting_.empty() && running() < policy_.max_running) return false;
  for (const auto& s : waiting_)
    if (!leaving(*s, now).ok()) return false;
  for (const auto& s : active_)
    if (!leaving(*s, now).ok() || (!s->planned && !s->parked())) return false;
  return true;
}

// kWaits: what the run says has to be known first; the sequence would fall behind those that run ahead.
TokenScheduler::Next TokenScheduler::next_of(const TokenRun& run) const {
  const auto& s = *run.sequence;
  const auto& sampling = s.wish.sampling;
  bool draws = run.kind == TokenRun::Kind::kFeed && run.from + run.count == s.length() && s.draws(limit_);
  bool by_itself = s.readouts.empty() && s.reviews.empty() && !s.held;
  bool forgets = sampling.repetition_penalty == 1 && sampling.presence_penalty == 0 && sampling.frequency_penalty == 0;
  if (!draws || !by_itself || !forgets) return Next::kWaits;
  if (s.generated + 1 == s.wish.max_tokens || s.length() + 1 == limit_) return Next::kEnds;
  // Of the peer's credit one is for the token that is being drawn.
  return s.call->credit.load(std::memory_order_acquire) > 1 ? Next::kGoesOn : Next::kEnds;
}

TokenStep* TokenScheduler::plan_ahead(Time now) {
  base::check(ahead_.runs.empty() && !rows_.runs.empty(), "one step runs ahead of one that runs");
  if (!calm(now)) return nullptr;
  draws_.assign(rows_.runs.size(), 0);
  for (uint32_t i = 0; i < rows_.step.looks.size(); ++i)
    if (rows_.step.looks[i].kind == TokenStep::Look::Kind::kDraw) draws_[rows_.step.looks[i].row] = i;
  auto waits = [&](const TokenRun& run) {
    auto next = run.sequence ? next_of(run) : Next::kEnds;
    return next == Next::kWaits || (next == Next::kGoesOn && !memory_.reach(*run.sequence, run.from + run.count + 1));
  };
  if (std::any_of(rows_.runs.begin(), rows_.runs.end(), waits)) return nullptr;
  for (size_t i = 0; i < rows_.runs.size(); ++i) {
    const auto& run = rows_.runs[i];
    if (run.sequence && next_of(run) == Next::kGoesOn)
      ahead_.add_ahead({TokenRun::Kind::kFeed, run.sequence, run.from + run.count, 1}, draws_[i]);
  }
  if (ahead_.runs.empty()) return nullptr;
  planned_ahead_ = now;
  for (auto& run : ahead_.runs) run.sequence->call->times.batch_rows = uint32_t(ahead_.runs.size());
  return &ahead_.step;
}

// The step that ran ahead is the last one now.
void TokenScheduler::advance() {
  std::swap(rows_.step, ahead_.step);
  std::swap(rows_.runs, ahead_.runs);
  planned_ = planned_ahead_;
  for (auto& run : rows_.runs)
    if (run.sequence) run.sequence->planned = true;
}

}  // namespace weir::sched
