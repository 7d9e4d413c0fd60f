#include "generation/step_results.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "generation/scheduler_stats.h"

namespace weir::generation {

using base::Code;
using base::kNever;
using base::Time;
using msg::Aim;
using msg::Finish;
using Place = Sequence::Place;

namespace {

base::Bytes mean(const std::vector<double>& sums, size_t count) {
  std::string bytes(sums.size() * sizeof(float), '\0');
  for (size_t i = 0; i < sums.size(); ++i) {
    auto value = float(sums[i] / double(count));
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof value);
  }
  return base::Bytes::adopt(std::move(bytes));
}

}  // namespace

void StepResults::process(StepRows& rows, const base::Status& outcome, Time now) {
  Cursor at{rows.step};
  for (size_t i = 0; i < rows.runs.size(); ++i) {
    auto& run = rows.runs[i];
    if (!run.sequence) {  // it ended while this ran ahead
      skip_row(rows.step.rows[i], at);
      continue;
    }
    auto& s = *run.sequence;
    s.planned = false, s.feeding = 0;
    s.call->times.computed = now;
    if (outcome.ok())
      process_row(run, rows.step.rows[i], at, now);
    else if (s.place != Place::kGone)  // recomputation and a feed are two rows of one sequence
      fail(s, outcome, now);
  }
}

void StepResults::process_row(const TokenRun& run, const TokenStep::Row& row, Cursor& at, Time now) {
  auto& s = *run.sequence;
  const bool ended = s.ending != Finish::kNone;  // with a token that this feeds for its readout
  auto* sample = process_positions(run, row, at);
  if (run.kind == TokenRun::Kind::kRecompute) {
    s.recomputes.pop_front(run.count);
    s.recomputed += run.count;
    memory_.drop_scratch(s, s.recomputes.empty() ? 0 : 1);
  } else {
    s.stored += run.count;
    memory_.seal(s);
    if (s.is(Aim::kEmbed)) s.pool = std::move(at.step.pools[at.pool++].sum);
  }
  if (sample && !ended)
    process_sample(s, *sample, now), process_draft(run, row, at, now);
  else if (complete(s))
    finish_sequence(s, now);
}

// A guess that has been drawn is stored, and what was drawn after it counts.
void StepResults::process_draft(const TokenRun& run, const TokenStep::Row& row, Cursor& at, Time now) {
  const uint32_t count = run.draft.count;
  if (count == 0) return;
  auto& s = *run.sequence;
  const uint32_t* guesses = at.step.ids.data() + row.first + run.count;
  uint32_t right = 0;
  auto goes_on = [&] { return s.place != Place::kGone && s.ending == Finish::kNone; };
  for (; right < count && goes_on() && s.tokens.back() == guesses[right]; ++right) {
    ++s.stored;
    memory_.seal(s);
    process_sample(s, at.step.logits_requests[at.request + right], now);
  }
  at.request += count;
  tokens_.drafted.add(count), tokens_.drafted_right.add(right);
  s.draft_length.record(count, right);
}

void StepResults::skip_row(const TokenStep::Row& row, Cursor& at) {
  const auto& step = at.step;
  const uint32_t end = row.first + row.count;
  while (at.request < step.logits_requests.size() && step.logits_requests[at.request].token < end) ++at.request;
  while (at.readout < step.readouts.size() && step.readouts[at.readout].token < end) ++at.readout;
}

// In ascending order: what was asked for of each position that was fed, and the scores of the position after it. The
// request that drew the next token, if there is one.
TokenStep::LogitsRequest* StepResults::process_positions(const TokenRun& run, const TokenStep::Row& row, Cursor& at) {
  auto& s = *run.sequence;
  auto& step = at.step;
  LogitsRequest* sample = nullptr;
  bool asked = !s.scores.empty() || !s.readouts.empty();
  for (uint32_t i = asked ? 0 : run.count - 1; i < run.count; ++i) {
    uint32_t flat = row.first + i, position = run.from + i;
    std::vector<float>* readout = nullptr;
    if (at.readout < step.readouts.size() && step.readouts[at.readout].token == flat)
      readout = &step.readouts[at.readout++].values;
    emit_prompt_token(s, position, readout);
    if (at.request == step.logits_requests.size() || step.logits_requests[at.request].token != flat) continue;
    auto& request = step.logits_requests[at.request++];
    if (request.kind == LogitsRequest::Kind::kSample)
      sample = &request;
    else
      s.next_score = {position + 1, request.logprob, std::move(request.best)};
  }
  return sample;
}

void StepResults::emit_prompt_token(Sequence& s, uint32_t position, std::vector<float>* readout) {
  bool newest = s.held_details && position + 1 == s.length();
  if (!newest && !s.has_pending_details(position)) return;
  auto details = newest ? std::move(s.held_details) : std::make_unique<msg::TokenDetails>();
  if (readout) details->readout = std::move(*readout);
  if (!newest && s.scores.has(position) && s.next_score.position == position) {
    details->has_logprob = true;
    details->logprob = s.next_score.logprob;
    details->top = std::move(s.next_score.best);
  }
  emit_token(s, {s.tokens[position], position, position < s.prompt, std::move(details)});
}

void StepResults::emit_token(Sequence& s, msg::Token token) {
  s.emitted = token.position + 1;
  s.call->credit.fetch_sub(1, std::memory_order_acq_rel);
  mail_.push_back({s.call, {std::move(token)}});
}

Finish StepResults::reason_to_end(const Sequence& s, uint32_t id) const {
  auto among = [id](const std::vector<uint32_t>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  if (!s.params.ignore_eos && among(spec_.text->eos_ids)) return Finish::kEos;
  if (among(s.params.stop_ids)) return Finish::kStopId;
  return s.generated == s.params.max_tokens || s.length() == limit_ ? Finish::kLength : Finish::kNone;
}

// Logits that are not numbers have no token, nor has a form that no token of the vocabulary continues.
base::Status StepResults::no_token(const Sequence& s, uint32_t position) {
  if (!s.params.constraint)
    return base::failure(Code::kInternal, "the model gave no token at position " + std::to_string(position));
  return base::failure(Code::kFailedPrecondition,  // it will be so whenever it is tried again
                       "no token continues the text in the form that was asked for, or the form is too ambiguous to "
                       "find one in time, at position " +
                           std::to_string(position));
}

// A text that nothing may follow ends without an end-of-sequence token.
base::Status StepResults::advance_constraint(Sequence& s, uint32_t id) {
  auto* constraint = s.params.constraint.get();
  if (!constraint || s.ending == Finish::kEos || s.ending == Finish::kStopId) return {};
  if (!constraint->accept(id)) return no_token(s, s.length() - 1);
  if (constraint->complete()) s.ending = Finish::kEos;
  return {};
}

void StepResults::time_token(Sequence& s, Time now) {
  tokens_.generated_total.add();
  if (s.first_token == kNever) {
    s.first_token = s.call->times.first_token = now;
    tokens_.time_to_first_token.record_ns(whole_ns(now - s.call->times.queued));
  } else {
    tokens_.inter_token.record_ns(whole_ns(now - s.last_token));
  }
  s.last_token = now;
}

// A readout at the new token's position is known when it is fed: the token is held back until then, and fed also if it
// is the last one.
void StepResults::process_sample(Sequence& s, LogitsRequest& request, Time now) {
  uint32_t position = s.length();
  if (request.id >= spec_.text->vocabulary) return fail(s, no_token(s, position), now);
  s.tokens.push_back(request.id);
  ++s.generated;
  time_token(s, now);
  s.ending = reason_to_end(s, request.id);
  if (auto bad = advance_constraint(s, request.id); !bad.ok()) return fail(s, std::move(bad), now);
  bool waits = s.readouts.has(position);
  std::unique_ptr<msg::TokenDetails> details;
  if (request.wants_logprob || waits) details = std::make_unique<msg::TokenDetails>();
  if (request.wants_logprob)
    details->has_logprob = true, details->logprob = request.logprob, details->top = std::move(request.best);
  if (waits)
    s.held_details = std::move(details);
  else
    emit_token(s, {request.id, position, false, std::move(details)});
  if (complete(s)) finish_sequence(s, now);
}

bool StepResults::complete(const Sequence& s) const {
  if (!s.recomputes.empty() || s.held_details) return false;
  return s.ending != Finish::kNone || (s.unfed() == 0 && !s.draws(limit_));
}

void StepResults::finish_sequence(Sequence& s, Time now) {
  auto* call = s.call;
  auto finish = s.ending == Finish::kNone ? Finish::kLength : s.ending;
  bool stopped = finish == Finish::kEos || finish == Finish::kStopId;
  msg::Event event{msg::Done{s.prompt, s.cached - std::min(s.cached, s.recomputed), s.generated, finish,
                             stopped ? s.tokens.back() : 0}};
  if (s.is(Aim::kEmbed)) {
    msg::Outputs outputs;
    outputs.tensors.push_back({"embedding", msg::DType::kFp32, {int64_t(s.pool.size())}, mean(s.pool, s.prompt)});
    event = {std::move(outputs)};
  }
  call->times.finished = now;
  tokens_.end(bus::reason_of(finish));
  count_sequence(stats_, s, now);
  leave(s);
  mail_.push_back({call, std::move(event)});
}

void StepResults::fail(Sequence& s, base::Status status, Time now) {
  auto* call = s.call;
  call->times.finished = now;
  stats_.add_failure(status.code, whole_ns(now - call->times.queued));
  bool aborted = status.code == Code::kCancelled || status.code == Code::kDeadlineExceeded;
  tokens_.end(aborted ? bus::TokenStats::Reason::kAbort : bus::TokenStats::Reason::kError);
  leave(s);
  mail_.push_back({call, {msg::Failed{std::move(status)}}});
}

void StepResults::finish_release(msg::Call* call, Time now) {
  auto& times = call->times;
  times.started = times.computing = times.computed = times.finished = now;
  mail_.push_back({call, {msg::Done{}}});
}

void StepResults::leave(Sequence& s) {
  if (!s.resides() || !s.keeps_session)
    memory_.release(s);
  else if (s.started)
    memory_.keep(s);
  else
    memory_.cut(s.call->session, uint32_t(s.params.history.size()));
  s.place = Place::kGone;
}

}  // namespace weir::generation
