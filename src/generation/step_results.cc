// The second half of TokenScheduler: what a step's results mean for its sequences, and what is said of them.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "generation/scheduler.h"

namespace weir::generation {

using base::Code;
using base::Duration;
using base::kNever;
using base::Time;
using msg::Aim;
using msg::Finish;
using Place = Sequence::Place;

namespace {

uint64_t whole_ns(Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

base::Bytes mean(const std::vector<double>& sums, size_t count) {
  std::string bytes(sums.size() * sizeof(float), '\0');
  for (size_t i = 0; i < sums.size(); ++i) {
    auto value = float(sums[i] / double(count));
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof value);
  }
  return base::Bytes::adopt(std::move(bytes));
}

}  // namespace

void TokenScheduler::finish(const base::Status& outcome, Time now) {
  if (outcome.ok()) count_step(now);
  Cursor at;
  for (size_t i = 0; i < rows_.runs.size(); ++i) {
    auto& run = rows_.runs[i];
    if (!run.sequence) {  // it ended while this ran ahead
      pass_over(rows_.step.rows[i], at);
      continue;
    }
    auto& s = *run.sequence;
    s.planned = false;
    s.call->times.computed = now;
    if (outcome.ok())
      process_row(run, rows_.step.rows[i], at, now);
    else if (s.place != Place::kGone)  // a review and a feed are two rows of one sequence
      fail(s, outcome, now);
  }
  rows_.clear();
  drop_gone();
  advance();
  gauge();
}

void TokenScheduler::process_row(const TokenRun& run, const TokenStep::Row& row, Cursor& at, Time now) {
  auto& s = *run.sequence;
  TokenStep::LogitsRequest* draw = nullptr;
  const bool ended = s.ending != Finish::kNone;  // with a token that this feeds for its readout
  process_positions(run, row, at, draw);
  if (run.kind == TokenRun::Kind::kReview) {
    s.reviews.take(run.count);
    s.reviewed += run.count;
    memory_.drop_scratch(s, s.reviews.empty() ? 0 : 1);
  } else {
    s.stored += run.count;
    memory_.seal(s);
    if (s.is(Aim::kEmbed)) hear_pool(s, at);
  }
  if (draw && !ended)
    process_sample(s, *draw, now);
  else if (complete(s))
    finish_sequence(s, now);
}

void TokenScheduler::pass_over(const TokenStep::Row& row, Cursor& at) const {
  const auto& step = rows_.step;
  const uint32_t end = row.first + row.count;
  while (at.request < step.logits_requests.size() && step.logits_requests[at.request].token < end) ++at.request;
  while (at.readout < step.readouts.size() && step.readouts[at.readout].token < end) ++at.readout;
}

// In ascending order: what was asked for of each position that was fed, and what its logits say of the next one.
void TokenScheduler::process_positions(const TokenRun& run, const TokenStep::Row& row, Cursor& at,
                                       TokenStep::LogitsRequest*& draw) {
  auto& s = *run.sequence;
  auto& step = rows_.step;
  bool asked = !s.scores.empty() || !s.readouts.empty();
  for (uint32_t i = asked ? 0 : run.count - 1; i < run.count; ++i) {
    uint32_t flat = row.first + i, position = run.from + i;
    std::vector<float>* readout = nullptr;
    if (at.readout < step.readouts.size() && step.readouts[at.readout].token == flat)
      readout = &step.readouts[at.readout++].values;
    emit_prompt_token(s, position, readout);
    if (at.request == step.logits_requests.size() || step.logits_requests[at.request].token != flat) continue;
    auto& request = step.logits_requests[at.request++];
    if (request.kind == TokenStep::LogitsRequest::Kind::kSample)
      draw = &request;
    else
      s.ahead = {position + 1, request.logprob, std::move(request.best)};
  }
}

void TokenScheduler::emit_prompt_token(Sequence& s, uint32_t position, std::vector<float>* readout) {
  bool newest = s.held && position + 1 == s.length();
  if (!newest && !s.has_pending_details(position)) return;
  auto details = newest ? std::move(s.held) : std::make_unique<msg::TokenDetails>();
  if (readout) details->readout = std::move(*readout);
  if (!newest && s.scores.has(position) && s.ahead.position == position) {
    details->has_logprob = true;
    details->logprob = s.ahead.logprob;
    details->top = std::move(s.ahead.best);
  }
  emit_token(s, {s.tokens[position], position, position < s.prompt, std::move(details)});
}

void TokenScheduler::emit_token(Sequence& s, msg::Token token) {
  s.told = token.position + 1;
  s.call->credit.fetch_sub(1, std::memory_order_acq_rel);
  mail_.push_back({s.call, {std::move(token)}});
}

void TokenScheduler::hear_pool(Sequence& s, Cursor& at) {
  const auto& sum = rows_.step.pools[at.pool++].sum;
  s.pool.resize(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) s.pool[i] += double(sum[i]);
}

Finish TokenScheduler::reason_to_end(const Sequence& s, uint32_t id) const {
  auto among = [id](const std::vector<uint32_t>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  if (!s.wish.ignore_eos && among(spec_.text->eos_ids)) return Finish::kEos;
  if (among(s.wish.stop_ids)) return Finish::kStopId;
  return s.generated == s.wish.max_tokens || s.length() == limit_ ? Finish::kLength : Finish::kNone;
}

// A readout at the new token's position is known when it is fed: the token is held back until then, and fed also if it
// is the last one.
void TokenScheduler::process_sample(Sequence& s, TokenStep::LogitsRequest& request, Time now) {
  uint32_t position = s.length();
  if (request.id >= spec_.text->vocabulary)  // logits that are not numbers have no token
    return fail(s, base::failure(Code::kInternal, "the model gave no token at position " + std::to_string(position)),
                now);
  s.tokens.push_back(request.id);
  ++s.generated;
  tokens_.generated_total.add();
  if (s.first_token == kNever) {
    s.first_token = now;
    tokens_.time_to_first_token.record_ns(whole_ns(now - s.call->times.queued));
  } else {
    tokens_.inter_token.record_ns(whole_ns(now - s.last_token));
  }
  s.last_token = now;
  s.ending = reason_to_end(s, request.id);
  bool waits = s.readouts.has(position);
  std::unique_ptr<msg::TokenDetails> details;
  if (request.wants_logprob || waits) details = std::make_unique<msg::TokenDetails>();
  if (request.wants_logprob)
    details->has_logprob = true, details->logprob = request.logprob, details->top = std::move(request.best);
  if (waits)
    s.held = std::move(details);
  else
    emit_token(s, {request.id, position, false, std::move(details)});
  if (complete(s)) finish_sequence(s, now);
}

bool TokenScheduler::complete(const Sequence& s) const {
  if (!s.reviews.empty() || s.held) return false;
  return s.ending != Finish::kNone || (s.unfed() == 0 && !s.draws(limit_));
}

void TokenScheduler::finish_sequence(Sequence& s, Time now) {
  auto* call = s.call;
  auto finish = s.ending == Finish::kNone ? Finish::kLength : s.ending;
  bool stopped = finish == Finish::kEos || finish == Finish::kStopId;
  msg::Event event{msg::Done{s.prompt, s.cached - std::min(s.cached, s.reviewed), s.generated, finish,
                             stopped ? s.tokens.back() : 0}};
  if (s.is(Aim::kEmbed)) {
    msg::Outputs outputs;
    outputs.tensors.push_back({"embedding", msg::DType::kFp32, {int64_t(s.pool.size())}, mean(s.pool, s.prompt)});
    event = {std::move(outputs)};
  }
  call->times.finished = now;
  tokens_.end(bus::reason_of(finish));
  count(s, now);
  leave(s);
  mail_.push_back({call, std::move(event)});
}

void TokenScheduler::fail(Sequence& s, base::Status status, Time now) {
  auto* call = s.call;
  call->times.finished = now;
  stats_.add_failure(status.code, whole_ns(now - call->times.queued));
  bool aborted = status.code == Code::kCancelled || status.code == Code::kDeadlineExceeded;
  tokens_.end(aborted ? bus::TokenStats::Reason::kAbort : bus::TokenStats::Reason::kError);
  if (!s.started) share_.left(s.level, call->tenant, s.tag, s.work());
  leave(s);
  mail_.push_back({call, {msg::Failed{std::move(status)}}});
}

// Its blocks go before its last Event does, so that memory is back when the client hears of it.
void TokenScheduler::leave(Sequence& s) {
  if (!s.resides() || !s.keeps)
    memory_.release(s);
  else if (s.started)
    memory_.keep(s);
  else
    memory_.cut(s.call->session, uint32_t(s.wish.history.size()));
  s.place = Place::kGone;
}

// As Triton counts, with a sequence for a request, and all of its steps for its batch.
void TokenScheduler::count(const Sequence& s, Time now) {
  auto& times = s.call->times;
  for (auto* time : {&times.computing, &times.computed})
    if (*time == kNever) *time = now;  // everything was there already
  auto queued = whole_ns(times.started - times.queued);
  stats_.success.add(whole_ns(now - times.queued));
  stats_.queue.add(queued);
  stats_.compute_input.add(whole_ns(times.computing - times.started));
  stats_.compute_infer.add(whole_ns(times.computed - times.computing));
  stats_.compute_output.add(whole_ns(now - times.computed));
  stats_.inference_count.fetch_add(1, std::memory_order_relaxed);

  auto first = s.first_token == kNever ? now : s.first_token, last = s.last_token == kNever ? now : s.last_token;
  tokens_.queue.record_ns(queued);
  tokens_.prefill.record_ns(whole_ns(first - times.started));
  tokens_.decode.record_ns(whole_ns(last - first));
  tokens_.inference.record_ns(whole_ns(now - times.started));
  tokens_.whole.record_ns(whole_ns(now - times.queued));
  if (s.generated > 1) tokens_.per_output_token.record_ns(whole_ns(last - first) / (s.generated - 1));
  tokens_.prompt_tokens.record_size(s.prompt);
  tokens_.generated_tokens.record_size(s.generated);
  tokens_.max_tokens.record_size(s.wish.max_tokens);
  tokens_.prompt_total.add(s.prompt);
}

void TokenScheduler::count_step(Time now) {
  auto rows = uint32_t(rows_.runs.size());
  stats_.execution_count.fetch_add(1, std::memory_order_relaxed);
  stats_.record_batch(rows, 0, whole_ns(now - planned_), 0);
  tokens_.iteration_tokens.record_size(rows_.step.ids.size());
}

}  // namespace weir::generation
