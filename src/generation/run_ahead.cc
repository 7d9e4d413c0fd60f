// What TokenScheduler lays out behind a step that still runs.
//
// Only decoding runs ahead: a sequence's next position is fed before its token is known here, since the engine has
// drawn it. If the token ends the sequence, what was computed behind it is thrown away: its keys and values lie beyond
// what the sequence has stored, in blocks that nobody else is given before that step was submitted. Of penalties the
// engine knows the drawn token, too; a readout of the token comes with the step that feeds it.
#include <algorithm>

#include "base/check.h"
#include "generation/scheduler.h"

namespace weir::generation {

using base::Time;

// Nobody waits for what only plan() does: nobody can be let in, leaves, or was left out of the last step.
bool TokenScheduler::can_run_ahead(Time now) const {
  if (!waiting_.empty() && running() < policy_.max_running) return false;
  for (const auto& s : waiting_)
    if (!leaving(*s, now).ok()) return false;
  for (const auto& s : active_)
    if (!leaving(*s, now).ok() || (!s->planned && !s->parked())) return false;
  return true;
}

// What its peer will be told of this run, in units of credit.
int64_t TokenScheduler::pending_events(const TokenRun& run) const {
  const auto& s = *run.sequence;
  int64_t tokens = s.held ? 1 : 0;
  if (!s.scores.empty() || !s.readouts.empty())
    for (uint32_t p = run.from; p < run.from + run.count; ++p) tokens += s.has_pending_details(p);
  return tokens + !s.readouts.has(s.length());  // the one that is being drawn
}

// kWaits: what the run says has to be known first; the sequence would fall behind those that run ahead. kIsReadOut: the
// token that is being drawn is the last one, and is fed for its readout alone.
TokenScheduler::Next TokenScheduler::next_of(const TokenRun& run) const {
  const auto& s = *run.sequence;
  bool last = run.kind == TokenRun::Kind::kFeed && run.from + run.count == s.length();
  if (!last || !s.reviews.empty()) return Next::kWaits;
  if (!s.draws(limit_) || s.call->credit.load(std::memory_order_acquire) <= pending_events(run)) return Next::kEnds;
  if (s.generated + 1 < s.wish.max_tokens && s.length() + 1 < limit_) return Next::kGoesOn;
  return s.readouts.has(s.length()) ? Next::kIsReadOut : Next::kEnds;
}

TokenStep* TokenScheduler::plan_ahead(Time now) {
  base::check(ahead_.runs.empty() && !rows_.runs.empty(), "one step runs ahead of one that runs");
  if (!can_run_ahead(now)) return nullptr;
  draws_.assign(rows_.runs.size(), 0);
  for (uint32_t i = 0; i < rows_.step.logits_requests.size(); ++i)
    if (rows_.step.logits_requests[i].kind == TokenStep::LogitsRequest::Kind::kSample)
      draws_[rows_.step.logits_requests[i].row] = i;
  auto waits = [&](const TokenRun& run) {
    auto next = run.sequence ? next_of(run) : Next::kEnds;
    return next == Next::kWaits || (next != Next::kEnds && !memory_.reach(*run.sequence, run.from + run.count + 1));
  };
  if (std::any_of(rows_.runs.begin(), rows_.runs.end(), waits)) return nullptr;
  for (size_t i = 0; i < rows_.runs.size(); ++i) {
    const auto& run = rows_.runs[i];
    auto next = run.sequence ? next_of(run) : Next::kEnds;
    if (next == Next::kEnds) continue;
    ahead_.add_ahead({TokenRun::Kind::kFeed, run.sequence, run.from + run.count, 1}, draws_[i],
                     next == Next::kGoesOn ? StepRows::Draws::kYes : StepRows::Draws::kNo);
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

}  // namespace weir::generation
