#include "generation/step_planner.h"

#include <algorithm>

namespace weir::generation {
namespace {

using base::Time;
using Place = Sequence::Place;

constexpr uint32_t kDraftRows = 8;    // of a step, guesses and what they follow: more rows take more time
constexpr uint32_t kLeastPiece = 16;  // tokens of a prompt that is spread over steps

// The step that runs does not reach the end of its prompt: what comes next is known.
bool continues(const Sequence& s) { return s.feeding > 0 && s.unfed() > 0; }

bool runs(const Sequence& s) {
  return s.place == Place::kActive && (!s.planned || continues(s)) && s.images_missing == 0 && !s.parked();
}

bool decodes(const Sequence& s) { return s.unfed() == 1 && s.feeding == 0 && s.recomputes.empty(); }

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
  running_.load = {}, running_.planned = now;
}

TokenStep* StepPlanner::plan() {
  auto* step = fill(running_);
  rows_.begin();
  return step;
}

// A sequence that is in neither step joins the newer one. It takes no blocks from anybody: that changes sequences of
// the step that runs.
bool StepPlanner::can_follow(Sequence& s) {
  if (s.place != Place::kActive || s.planned || s.parked()) return true;
  if (s.images_missing > 0 || !s.recomputes.empty()) return false;
  return !decodes(s) || memory_.grow(s);
}

TokenStep* StepPlanner::plan_ahead(Time now) {
  for (auto& s : active_)
    if (!can_follow(*s)) return nullptr;
  if (!ahead_.plan(rows_)) return nullptr;
  next_.load = {}, next_.planned = now;
  return fill(next_);
}

TokenStep* StepPlanner::fill(Layout& to) {
  const auto& runs = to.rows.runs;
  uint32_t budget = policy_.step_tokens - std::min(policy_.step_tokens, uint32_t(runs.size()));
  to.load.decodes = uint32_t(runs.size());
  plan_decodes(to, budget);
  plan_prefills(to, budget);
  if (runs.empty()) return nullptr;
  for (auto& run : runs) {
    auto& times = run.sequence->call->times;
    if (times.computing == base::kNever) times.computing = to.planned;
    times.batch_rows = uint32_t(runs.size());
  }
  return &to.rows.step;
}

// Behind a step that runs nobody gives up blocks: who has got credit since can_follow() may be left out.
void StepPlanner::plan_decodes(Layout& to, uint32_t& budget) {
  uint32_t ours = 0;  // sequences that have not had their row
  if (policy_.draft_tokens > 0)
    for (auto& s : active_) ours += runs(*s) && decodes(*s);
  uint32_t guesses = std::min(budget, kDraftRows) - std::min({budget, kDraftRows, ours});
  for (auto& s : active_) {
    if (budget == 0) return;
    if (!runs(*s) || !decodes(*s)) continue;
    bool room = memory_.grow(*s);
    if (!room && &to == &next_) continue;
    while (!room && active_.free_blocks(*s, ActiveSequences::Claim::kGrow)) room = memory_.grow(*s);
    if (!room) {
      active_.preempt(*s);
      continue;
    }
    const Draft made = &to == &next_ ? Draft() : draft(*s, std::min(budget - 1, guesses / std::max(ours, 1u)));
    to.rows.add({TokenRun::Kind::kFeed, s.get(), s->stored, 1, made});
    budget -= 1 + made.count, to.load.decodes += 1 + made.count;
    guesses -= std::min(guesses, made.count), ours -= ours > 0;
  }
}

// As far as there are blocks for them that nobody has, and credit for the tokens that they may become.
Draft StepPlanner::draft(Sequence& s, uint32_t most) {
  if (policy_.draft_tokens == 0 || !s.draws(limit_) || !s.can_be_guessed()) return {};
  const int32_t credit = s.call->credit.load(std::memory_order_acquire);
  const uint32_t left = std::min(s.params.max_tokens - s.generated, limit_ - s.length());
  most = std::min({most, policy_.draft_tokens, left - 1, uint32_t(std::max(credit, 1)) - 1});
  Draft guesses = find_draft(s.tokens, most > 0 ? s.draft_length.next(most) : 0);
  (void)memory_.reach(s, s.length() + guesses.count);
  guesses.count = std::min(guesses.count, uint32_t(s.blocks.size()) * block_size_ - s.length());
  return guesses;
}

// As many tokens as bring every prompt to its end in policy_.prompt_steps steps: then those who wait for their next
// token find all steps about as long, and on a device that reads its weights for them anyhow hardly longer than without
// prompts.
uint32_t StepPlanner::spread() const {
  uint64_t tokens = 0;
  for (const auto& prompt : prompts_) {
    const auto& s = *prompt.sequence;
    const uint64_t whole = std::max<uint64_t>(prompt.left, s.prompt > s.cached ? s.prompt - s.cached : 0);
    tokens += std::min(prompt.left, std::max<uint64_t>(whole / policy_.prompt_steps, kLeastPiece));
  }
  return uint32_t(std::min<uint64_t>(tokens, policy_.step_tokens));
}

// Their blocks were taken when they were admitted.
void StepPlanner::plan_prefills(Layout& to, uint32_t budget) {
  if (budget == 0) return;
  prompts_.clear();
  for (auto& s : active_) {
    if (!runs(*s) || decodes(*s)) continue;
    prompts_.push_back({s.get(), s->unfed() + s->recomputes.size()});
    to.load.context = std::max(to.load.context, s->next());
  }
  if (prompts_.empty()) return;
  budget = std::min(budget, budget_.prefill_tokens(to.load));
  if (to.load.decodes > 0 && policy_.prompt_steps > 1) budget = std::min(budget, spread());
  shares_.share(prompts_, budget);
  uint32_t left = budget;
  for (auto& prompt : prompts_)
    if (prompt.given > 0) left -= plan_prefill(to.rows, *prompt.sequence, prompt.given);
  // Some take less than they are given, since their peers have no credit for more.
  for (auto& prompt : prompts_)
    if (left > 0 && prompt.given == 0) left -= plan_prefill(to.rows, *prompt.sequence, left);
  to.load.prefill = budget - left;
}

// Returns how many tokens of it are in the step, of `most` at most.
uint32_t StepPlanner::plan_prefill(StepRows& rows, Sequence& s, uint32_t most) {
  uint32_t budget = most;
  uint64_t recomputes = s.recomputes.size();
  if (recomputes > 0) recompute(rows, s, budget);
  uint32_t count = std::min(s.unfed(), budget);
  if (recomputes > most - budget || count == 0) return most - budget;  // what was asked for earlier comes first
  count = allowed(s, s.next(), count);
  rows.add({TokenRun::Kind::kFeed, &s, s.next(), count});
  return most - budget + count;
}

void StepPlanner::recompute(StepRows& rows, Sequence& s, uint32_t& budget) {
  auto range = s.recomputes.front();
  uint32_t inside = range.start % block_size_;
  uint32_t count = allowed(s, range.start, std::min(range.end - range.start, budget));
  memory_.widen_scratch(s, (inside + count + block_size_ - 1) / block_size_);
  count = std::min(count, uint32_t(s.scratch.size()) * block_size_ - inside);
  if (inside > 0) engine_.copy_block(s.blocks[range.start / block_size_], s.scratch[0], inside);
  rows.add({TokenRun::Kind::kRecompute, &s, range.start, count});
  budget -= count;
}

// A step that ran ahead began when the one before it ended.
void StepPlanner::measure(Time now) {
  budget_.record(running_.load, now - std::max(running_.planned, measured_));
  measured_ = now;
}

void StepPlanner::advance() {
  rows_.clear();
  ahead_.take(rows_);
  rows_.begin();
  running_.load = next_.load, running_.planned = next_.planned;
}

}  // namespace weir::generation
