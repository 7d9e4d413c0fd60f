#include "generation/run_ahead_planner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::generation {
namespace {

// The rows after it do not depend on the results of the step before, as sums of hidden states do, and how far there is
// credit.
bool is_plain(const Sequence& s) { return s.scores.empty() && s.readouts.empty() && !s.is(msg::Aim::kEmbed); }

}  // namespace

// Events that the results of this run will cause, in units of credit.
int64_t RunAheadPlanner::pending_events(const TokenRun& run) const {
  const auto& s = *run.sequence;
  int64_t tokens = s.held_details ? 1 : 0;
  if (!s.scores.empty() || !s.readouts.empty())
    for (uint32_t p = run.from; p < run.from + run.count; ++p) tokens += s.has_pending_details(p);
  return tokens + !s.readouts.has(s.length());  // the one that is being drawn
}

// kWaits: the results have to be known first; the sequence would fall behind those that run ahead. kIsReadOut: the
// token that is being drawn is the last one, and is fed for its readout alone. kIsPrompt: nothing is drawn.
RunAheadPlanner::Next RunAheadPlanner::next_of(const TokenRun& run) const {
  if (!run.sequence) return Next::kEnds;
  const auto& s = *run.sequence;
  if (run.kind != TokenRun::Kind::kFeed || run.draft.count > 0 || !s.recomputes.empty()) return Next::kWaits;
  if (run.from + run.count < s.length()) return is_plain(s) ? Next::kIsPrompt : Next::kWaits;
  if (s.params.constraint && s.draws(limit_)) return Next::kWaits;  // its next mask depends on the token
  if (!s.draws(limit_) || s.call->credit.load(std::memory_order_acquire) <= pending_events(run)) return Next::kEnds;
  if (s.generated + 1 < s.params.max_tokens && s.length() + 1 < limit_) return Next::kGoesOn;
  return s.readouts.has(s.length()) ? Next::kIsReadOut : Next::kEnds;
}

bool RunAheadPlanner::waits(const TokenRun& run) const {
  auto next = next_of(run);
  bool draws = next == Next::kGoesOn || next == Next::kIsReadOut;
  return next == Next::kWaits || (draws && !memory_.reach(*run.sequence, run.from + run.count + 1));
}

bool RunAheadPlanner::plan(const StepRows& running) {
  base::check(rows_.runs.empty() && !running.runs.empty(), "one step runs ahead of one that runs");
  const auto& requests = running.step.logits_requests;
  draws_.assign(running.runs.size(), 0);
  for (uint32_t i = 0; i < requests.size(); ++i)
    if (requests[i].kind == TokenStep::LogitsRequest::Kind::kSample) draws_[requests[i].row] = i;
  if (std::any_of(running.runs.begin(), running.runs.end(), [this](const auto& run) { return waits(run); }))
    return false;
  for (size_t i = 0; i < running.runs.size(); ++i) {
    const auto& run = running.runs[i];
    auto next = next_of(run);
    if (next == Next::kEnds || next == Next::kIsPrompt) continue;
    rows_.add_ahead({TokenRun::Kind::kFeed, run.sequence, run.from + run.count, 1}, draws_[i],
                    next == Next::kGoesOn ? StepRows::Draws::kYes : StepRows::Draws::kNo);
  }
  return true;
}

void RunAheadPlanner::forget_gone() {
  for (auto& run : rows_.runs)
    if (run.sequence && run.sequence->place == Sequence::Place::kGone) run.sequence = nullptr;
}

void RunAheadPlanner::take(StepRows& rows) {
  std::swap(rows.step, rows_.step);
  std::swap(rows.runs, rows_.runs);
}

}  // namespace weir::generation
