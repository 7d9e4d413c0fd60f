#include "generation/step_rows.h"

#include <algorithm>
#include <utility>

namespace weir::generation {

void StepRows::clear() {
  step.clear();
  runs.clear();
}

void StepRows::add(TokenRun run) {
  auto& s = *run.sequence;
  auto first = uint32_t(step.ids.size());
  const uint32_t count = run.count + run.draft.count;
  TokenStep::Row row{first, count, run.from + count, 0, 0, s.call->adapter};
  add_table(run, row);
  auto tokens = std::span(s.tokens).subspan(run.from, run.count);
  step.ids.insert(step.ids.end(), tokens.begin(), tokens.end());
  for (uint32_t i = 0; i < run.draft.count; ++i) step.ids.push_back(run.draft.guess(s.tokens, i));
  for (uint32_t p = run.from; p < row.length; ++p) {
    step.positions.push_back(p);
    step.slots.push_back(step.tables[row.table + p / block_size_] * block_size_ + p % block_size_);
  }
  step.rows.push_back(row);
  add_patches(run, first);
  add_logits_requests(run, first);
  add_readouts(run, first);
  if (s.is(msg::Aim::kEmbed)) step.pools.push_back({uint32_t(runs.size()), s.pool});
  s.planned = true;
  runs.push_back(run);
}

void StepRows::add_ahead(TokenRun run, uint32_t request, Draws draws) {
  const auto& s = *run.sequence;
  TokenStep::Row row{uint32_t(step.ids.size()), 1, run.from + 1, 0, 0, s.call->adapter};
  add_table(run, row);
  step.ids.push_back(TokenStep::kSampled | request);
  step.positions.push_back(run.from);
  step.slots.push_back(step.tables[row.table + run.from / block_size_] * block_size_ + run.from % block_size_);
  bool scored = s.scores.has(run.from + 1);
  if (draws == Draws::kYes)
    step.logits_requests.push_back({.kind = TokenStep::LogitsRequest::Kind::kSample,
                                    .token = row.first,
                                    .row = uint32_t(runs.size()),
                                    .params = &s.params,
                                    .sequence = s.tokens,
                                    .prompt = s.prompt,
                                    .draw = s.generated + 1,
                                    .seed = s.seed,
                                    .hold_eos = s.generated + 1 < s.params.min_tokens,
                                    .wants_logprob = scored,
                                    .top = scored ? s.params.top_logprobs : 0});
  if (s.readouts.has(run.from)) step.readouts.push_back({row.first, {}});
  step.rows.push_back(row);
  runs.push_back(run);
}

void StepRows::begin() {
  for (auto& run : runs)
    if (run.sequence) {
      run.sequence->planned = true;
      if (run.kind == TokenRun::Kind::kFeed) run.sequence->feeding = run.count;
    }
}

void StepRows::add_table(const TokenRun& run, TokenStep::Row& row) {
  const auto& s = *run.sequence;
  row.table = uint32_t(step.tables.size());
  row.blocks = (row.length + block_size_ - 1) / block_size_;
  step.tables.insert(step.tables.end(), s.blocks.begin(), s.blocks.begin() + row.blocks);
  if (run.kind == TokenRun::Kind::kFeed) return;
  for (uint32_t block = run.from / block_size_; block < row.blocks; ++block)
    step.tables[row.table + block] = s.scratch[block - run.from / block_size_];
}

void StepRows::add_patches(const TokenRun& run, uint32_t first) {
  uint32_t end = run.from + run.count;
  for (auto& state : run.sequence->image_states_in(run.from, end)) {
    uint32_t pads = state.image->start + 1, pads_end = state.image->end - 1;
    size_t width = state.features.rows.size() / state.features.count;
    for (uint32_t p = std::max(pads, run.from); p < std::min(pads_end, end); ++p)
      step.patches.push_back({first + p - run.from, state.features.rows.data() + (p - pads) * width});
  }
}

void StepRows::request_logits(const TokenRun& run, uint32_t position, TokenStep::LogitsRequest request) {
  const auto& s = *run.sequence;
  request.row = uint32_t(runs.size());
  request.sequence = std::span(s.tokens).first(position);
  request.prompt = std::min(s.prompt, position);
  request.top = request.wants_logprob ? s.params.top_logprobs : 0;
  step.logits_requests.push_back(std::move(request));
}

// Requests the log-probabilities of the prompt's tokens where the client asked for them, and the sampling of the token
// that follows the last one.
void StepRows::add_logits_requests(const TokenRun& run, uint32_t first) {
  const auto& s = *run.sequence;
  uint32_t last = run.from + run.count;
  for (auto range : s.scores.all()) {
    uint32_t begin = std::max({range.start, run.from + 1, s.emitted}), end = std::min({range.end, last + 1, s.prompt});
    for (uint32_t p = begin; p < end; ++p)
      request_logits(run, p,
                     {.kind = TokenStep::LogitsRequest::Kind::kScore,
                      .token = first + (p - 1 - run.from),
                      .wants_logprob = true,
                      .id = s.tokens[p]});
  }
  if (run.kind == TokenRun::Kind::kRecompute || last != s.length() || !s.draws(limit_)) return;
  for (uint32_t guesses = 0; guesses <= run.draft.count; ++guesses)
    request_draw(run, first + run.count - 1 + guesses, guesses);
}

// The token that follows so many guesses.
void StepRows::request_draw(const TokenRun& run, uint32_t token, uint32_t guesses) {
  const auto& s = *run.sequence;
  request_logits(run, s.length(),
                 {.kind = TokenStep::LogitsRequest::Kind::kSample,
                  .token = token,
                  .params = &s.params,
                  .draw = s.generated + guesses,
                  .seed = s.seed,
                  .hold_eos = s.generated + guesses < s.params.min_tokens,
                  .wants_logprob = s.scores.has(s.length() + guesses)});
}

// The newest token is among them: it was sampled in an earlier step, and is fed for its readout.
void StepRows::add_readouts(const TokenRun& run, uint32_t first) {
  const auto& s = *run.sequence;
  for (auto range : s.readouts.all()) {
    uint32_t begin = std::max({range.start, run.from, s.emitted}), end = std::min(range.end, run.from + run.count);
    for (uint32_t p = begin; p < end; ++p) step.readouts.push_back({first + p - run.from, {}});
  }
}

}  // namespace weir::generation
