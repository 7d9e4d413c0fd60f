#include "engines/forward/shard_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "engines/forward/forwarded_call.h"
#include "engines/forward/gather.h"
#include "engines/forward/hedge.h"
#include "engines/forward/prefix.h"
#include "engines/forward/refusal.h"
#include "engines/forward/sequence_lines.h"
#include "engines/forward/token_counts.h"
#include "msg/sequence.h"
#include "sched/local_first.h"
#include "wire/hops.h"

namespace weir::forward {

using base::Code;
using base::failure;
using base::Status;
using base::Time;

namespace {

constexpr size_t kMostSpare = 256;
constexpr auto kLook = std::chrono::milliseconds(500);  // for calls that take too long

uint64_t nanoseconds(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

Status client_left() { return failure(Code::kCancelled, "the client has left"); }

// Texts that are tensors cost as many tokens as those that have become ids (msg/token_charge.h): one for each byte.
void charge_texts(const msg::Call& call, Time now) {
  for (const auto& tensor : call.inputs)
    if (call.limiter && tensor.name == kTextInput) call.limiter->charge_tokens(now, tensor.data.size());
}

uint64_t sequence_of(const msg::Call& call) { return call.session.high ^ call.session.low; }

}  // namespace

ShardModel::ShardModel(net::Shard& shard, std::shared_ptr<Target> target, const msg::ModelSpec& spec,
                       bus::ModelStats& stats, base::SlabSource& slabs)
    : shard_(shard),
      target_(std::move(target)),
      spec_(spec),
      stats_(stats),
      slabs_(slabs),
      lines_(std::make_unique<SequenceLines>(target_->sequences)) {
  for (auto& origin : target_->origins) conns_.push_back(std::make_unique<OriginConn>(shard_, *target_, origin));
  if (const double share = target_->options.hedge_quantile; share > 0) usual_ = std::make_unique<Quantile>(share);
  if (const auto what = target_->kind->gathers())
    gather_ = std::make_unique<Gather>(shard_.env(), spec_, *what,
                                       [this](msg::Call* call, Came came) { put_alone(call, came); });
}

ShardModel::~ShardModel() {
  base::check(calls_.empty(), "a forwarded model outlives its Calls");
  shard_.env().cancel(timer_);
  shard_.env().cancel(waited_timer_);
}

OriginConn& ShardModel::conn_to(const Origin& origin) {
  for (auto& conn : conns_)
    if (&conn->origin() == &origin) return *conn;
  base::check(false, "an origin is one of the target's");
  return *conns_.front();
}

void ShardModel::put(msg::Call* call, Came came) {
  if (gather_) charge_texts(*call, shard_.env().now());
  if (gather_ && call->rows == 1 && !call->session) return gather_->take(call, came);
  put_alone(call, came);
}

void ShardModel::put_alone(msg::Call* call, Came came) {
  auto made = std::make_unique<ForwardedCall>(*this, call, came);
  if (spare_.empty()) spare_.emplace_back();
  calls_.splice(calls_.end(), spare_, spare_.begin());
  auto& one = *(calls_.back() = std::move(made));
  one.at = std::prev(calls_.end());
  repeats_ = std::min(kMostRepeats, repeats_ + kRepeatShare);
  call->times.started = call->times.computing = shard_.env().now();
  call->times.batch_rows = call->rows;
  if (one.makes_tokens()) stats_.tokens->running.add(1);
  Status status = call->cancelled.load(std::memory_order_acquire) ? client_left() : target_->kind->fits(*call, spec_);
  if (status.ok() && call->trace && call->trace->hops >= wire::kMostHops) status = goes_in_circles(spec_.name);
  // An ended session leaves nothing behind here.
  if (status.ok() && one.makes_tokens() && call->generation->aim == msg::Aim::kRelease)
    return finish(one, {}, {msg::Done{}});
  if (status.ok() && SequenceLines::has_line(one)) {
    auto entered = lines_->enter(one, shard_.env().now());
    if (entered && *entered == SequenceLines::Entered::kWaits) return;
    if (!entered) status = entered.error();
  }
  if (status.ok()) status = begin(one);
  if (!status.ok()) return finish(one, std::move(status));
  watch_time();
}

// A sequence of stateful requests keeps to the origin that has its state, whoever else comes. Where that has gone, no
// other one has it. One that has waited while its sequence was started anew is not sent into the new run.
base::Result<Origin*> ShardModel::choose_for_sequence(const ForwardedCall& one) {
  const uint64_t hash = std::max<uint64_t>(sequence_of(*one.call), 1);
  const SequenceKey key = SequenceLines::key_of(one);
  const bool starts = msg::is_set(one.call->parameters, "sequence_start");
  const SequenceTable::Place place = target_->sequences.place_of(key, one.run);
  if (place.over) return failure(Code::kAborted, "the sequence has been started anew meanwhile");
  if (place.lost && !starts) {
    target_->sequences.end(key, one.run);
    return base::try_again(Code::kUnavailable, "the origin that had the sequence is gone; start it anew");
  }
  Origin* origin = starts ? nullptr : place.origin;
  if (origin) return target_->has_room(*origin) ? origin : nullptr;
  origin = starts ? target_->choose_for_start(hash) : target_->choose(shard_.env().now(), 0, hash, nullptr);
  if (origin && starts) target_->sequences.send_start(key, one.run);
  if (origin) target_->sequences.set_place(key, one.run, *origin);
  return origin;
}

// Prompts with the same beginning prefer one, which has its keys and values.
base::Result<Origin*> ShardModel::choose(const ForwardedCall& one, const Origin* tried) {
  if (SequenceLines::has_line(one)) return choose_for_sequence(one);
  const Time now = shard_.env().now();
  const uint64_t random = target_->origins.size() > 1 ? shard_.env().random() : 0;  // the kernel's, which cost
  if (!one.makes_tokens()) return target_->choose(now, random, 0, tried);
  const uint64_t prefix = prefix_hash(*one.call->generation, sequence_of(*one.call));
  return prefix == 0 ? target_->choose(now, random, 0, tried) : target_->choose_by_prefix(now, random, prefix, tried);
}

// Sends it to an origin. Not OK: there is none, and the Call is to be answered. Else it may be over already.
Status ShardModel::begin(ForwardedCall& one) {
  const msg::Call& call = *one.call;
  const Time now = shard_.env().now();
  if (call.deadline <= now) return failure(Code::kDeadlineExceeded, "the deadline passed before it was forwarded");
  const Origin* tried = one.origin;
  const size_t present = target_->present();
  Status last;
  for (size_t i = 0; i < std::max<size_t>(present, 1); ++i) {
    auto chosen = choose(one, tried);
    if (!chosen) return chosen.error();
    Origin* origin = *chosen;
    if (!origin) return last.ok() ? no_origin(*target_, spec_.name) : last;
    one.origin = origin;
    one.progress = now;
    one.late = false;
    one.before = one.generated.size();
    ++one.attempts;
    const Asked asked{call, spec_, target_->options, slabs_, one.generated, now};
    one.attempt = target_->kind->make_attempt(asked, one);
    hedge_later(one);
    auto started = one.attempt->start(conn_to(*origin));
    if (started.status.ok()) return {};
    last = std::move(started.status);
    if (started.fault == Attempt::Fault::kCall) return last;
    origin->eject();  // it cannot be reached now
    last = base::try_again(Code::kUnavailable, "origin " + origin->name() + ": " + last.text);
    if (!one.makes_tokens() && sequence_of(call) != 0) return last;
    tried = origin;
  }
  return last;
}

// A call that may have run is not run again where that could be told: in sequences, and behind answers that have begun.
// Tokens go on behind those that are there.
bool ShardModel::may_repeat(ForwardedCall& one, From from) {
  const size_t origins = target_->present();
  const bool dead = from != From::kOrigin || (one.makes_tokens() && one.late);
  if (!dead || one.attempts > origins) return false;
  if (!one.makes_tokens() && (one.posted || sequence_of(*one.call) != 0)) return false;
  if (from != From::kStale && origins < 2) return false;
  if (from == From::kUnsent) return true;
  // However many texts an origin takes with it, they go on: it is one step each until the next token.
  if (!one.generated.empty() && !target_->kind->can_move(*one.call)) return false;
  if (!one.generated.empty()) return ++one.moves <= ForwardedCall::kMostMoves;
  if ((!one.makes_tokens() && from != From::kBusy && one.attempt->answered()) || repeats_ < 1) return false;
  repeats_ -= 1;
  return true;
}

void ShardModel::count_health(Origin& origin, From from) {
  if (from == From::kOrigin || from == From::kBusy || from == From::kHere)
    origin.broken.store(0, std::memory_order_relaxed);
  else if (from == From::kUnsent || (from == From::kTransport &&
                                     origin.broken.fetch_add(1, std::memory_order_relaxed) + 1 >= Origin::kEjectAfter))
    origin.eject();
}

// True: it goes on at an origin, or is over. False: `why` is its end.
bool ShardModel::repeat(ForwardedCall& one, From from, Status& why) {
  if (one.call->cancelled.load(std::memory_order_acquire) || !may_repeat(one, from)) return false;
  const std::string left = one.origin->name(), reason = why.text;
  if (!one.generated.empty() && one.generated.size() >= one.call->generation->max_tokens) {
    msg::Done done;
    done.prompt_tokens = uint32_t(one.call->generation->length());
    done.completion_tokens = uint32_t(one.generated.size()), done.finish = msg::Finish::kLength;
    one.end = {{}, From::kOrigin, msg::Event{done}};
    one.before = 0;
    one.attempt.reset();
    (void)one.deliver();
    return true;
  }
  if (!one.generated.empty()) {
    stats_.tokens->moved.add();
    base::log::warning("a stream goes on at another origin", {{"model", spec_.name},
                                                              {"request", one.call->id},
                                                              {"from", left},
                                                              {"tokens", one.generated.size()},
                                                              {"reason", reason}});
  }
  Status again = begin(one);
  if (again.ok()) return true;
  why = std::move(again);
  return false;
}

void ShardModel::over(ForwardedCall& one, Attempt::Outcome&& ending) {
  Origin& origin = *one.origin;
  Status& status = ending.status;
  const From from = one.starved ? From::kHere : ending.from;
  count_health(origin, from);
  if (!status.ok() && one.hedge) {  // that goes on alone
    one.attempt.reset();
    return;
  }
  if (!status.ok() && from == From::kHere) return finish(one, std::move(status));
  if (!status.ok()) {
    const bool lost = from != From::kOrigin && status.code != Code::kResourceExhausted;
    status.text = "origin " + origin.name() + ": " + status.text;
    if (lost) status = base::try_again(Code::kUnavailable, std::move(status.text));
    // The client's own key was good; the one that the origin refuses is in the configuration.
    if (status.code == Code::kUnauthenticated || status.code == Code::kPermissionDenied) status.code = Code::kInternal;
    if (repeat(one, from, status)) return;
    return finish(one, std::move(status));
  }
  if (auto* done = std::get_if<msg::Done>(&ending.last->what)) {
    // An origin whose tokens are not those that are known here says how many there were.
    if (done->prompt_tokens == 0) done->prompt_tokens = uint32_t(one.call->generation->length());
    done->completion_tokens += uint32_t(one.before);
  }
  finish(one, {}, *std::move(ending.last));
}

// Tensors that are answered once, and not within a sequence: nobody can tell that they ran twice.
void ShardModel::hedge_later(ForwardedCall& one) {
  shard_.env().cancel(std::exchange(one.hedge_timer, base::TimerId::kNone));
  const Options& options = target_->options;
  if (!options.hedges() || one.makes_tokens() || spec_.decoupled || sequence_of(*one.call) != 0) return;
  const base::Duration after = usual_ ? usual_->value() : options.hedge_after;
  if (after.count() <= 0) return;
  one.hedge_timer = shard_.env().at(shard_.env().now() + after, [this, &one] {
    one.hedge_timer = base::TimerId::kNone;
    begin_hedge(one);
  });
}

void ShardModel::begin_hedge(ForwardedCall& one) {
  if (one.hedge || !one.attempt || one.attempt->answered() || target_->present() < 2 || repeats_ < 1) return;
  const Time now = shard_.env().now();
  Origin* origin = target_->choose(now, shard_.env().random(), 0, one.origin);
  if (!origin || origin == one.origin || !origin->able() || one.call->deadline <= now) return;
  one.hedge = std::make_unique<Hedge>(one, *origin);
  const Asked asked{*one.call, spec_, target_->options, slabs_, {}, now};
  one.hedge->attempt = target_->kind->make_attempt(asked, *one.hedge);
  repeats_ -= 1;
  if (!one.hedge->attempt->start(conn_to(*origin)).status.ok()) one.hedge.reset();
}

// A hedge that fails is forgotten while the first attempt goes on.
void ShardModel::hedge_over(ForwardedCall& one, Attempt::Outcome&& ending) {
  const auto hedge = std::move(one.hedge);
  if (!ending.status.ok() && one.attempt) return count_health(hedge->origin, ending.from);
  one.attempt = std::move(hedge->attempt);
  one.origin = &hedge->origin;
  over(one, std::move(ending));
}

// Requests behind one that the origin may not have seen could run on a state that lacks it. Those behind one that has a
// refusal have theirs already.
void ShardModel::end_line(ForwardedCall& one, const Status& status) {
  if (!SequenceLines::has_line(one)) return;
  std::erase(waited_, &one);
  if (!status.ok() && msg::ends_sequence(status.code) && !one.refusal) {
    const auto refusal = std::make_shared<const Status>(
        failure(status.code, "another request of the sequence was not answered, which has ended it: " + status.text));
    for (ForwardedCall* behind : lines_->end_run(one, *refusal, shard_.env().now())) {
      if (behind->refusal) continue;
      behind->refusal = refusal;
      waited_.push_back(behind);
    }
  }
  if (status.ok() && msg::is_set(one.call->parameters, "sequence_end"))
    target_->sequences.end(SequenceLines::key_of(one), one.run);
  if (ForwardedCall* next = lines_->leave(one); next && !next->refusal) waited_.push_back(next);
  if (waited_.empty() || waited_timer_ != base::TimerId::kNone) return;
  waited_timer_ = shard_.env().at(shard_.env().now(), [this] {
    waited_timer_ = base::TimerId::kNone;
    start_waiting();
  });
}

// The end of one may take others out of waited_.
void ShardModel::start_waiting() {
  for (size_t left = waited_.size(); left > 0 && !waited_.empty(); --left) {
    ForwardedCall& one = *waited_.front();
    waited_.pop_front();
    Status status = one.refusal ? *one.refusal : begin(one);
    if (!status.ok()) finish(one, std::move(status));
  }
  watch_time();
}

void ShardModel::finish(ForwardedCall& one, Status&& status, msg::Event&& last) {
  end_line(one, status);
  const auto keep = std::move(*one.at);
  if (spare_.size() < kMostSpare)
    spare_.splice(spare_.begin(), calls_, one.at);
  else
    calls_.erase(one.at);
  msg::Call& call = *one.call;
  const Time now = shard_.env().now();
  if (now != wall_at_) wall_at_ = now, wall_ms_ = base::unix_ms();
  call.times.computed = call.times.finished = now;
  const uint64_t took = nanoseconds(now - call.times.queued);
  // Those that the instances here take over are counted there.
  const bool goes_on = target_->options.beside_local && !one.posted && sched::runs_here_then(status.code);
  if (goes_on && one.makes_tokens()) stats_.tokens->running.add(-1);
  if (!goes_on && one.makes_tokens()) count_sequence(stats_, call, one.generated.size(), status, last);
  if (!status.ok()) {
    if (!goes_on) stats_.add_failure(status.code, took);
    return one.post({msg::Failed{std::move(status)}});
  }
  if (usual_) usual_->add(now - call.times.started);
  stats_.ran({.at_ms = wall_ms_,
              .rows = std::max(call.rows, 1u),
              .whole_ns = took,
              .queue_ns = nanoseconds(call.times.started - call.times.queued),
              .infer_ns = nanoseconds(now - call.times.started)});
  one.post(std::move(last));
}

void ShardModel::look() {
  if (gather_) gather_->look();
  for (auto next = calls_.begin(); next != calls_.end();) {
    ForwardedCall& one = **next++;
    if (one.call->cancelled.load(std::memory_order_acquire)) {
      one.attempt.reset(), one.hedge.reset();
      // A stop string, say: the client has all that it wanted.
      if (one.makes_tokens() && one.call->satisfied.load(std::memory_order_relaxed))
        finish(one, {}, {msg::Done{.finish = msg::Finish::kStopId}});
      else
        finish(one, client_left());
    } else {
      (void)one.deliver();
    }
  }
}

void ShardModel::watch_time() {
  if (timer_ != base::TimerId::kNone || calls_.empty() || target_->options.answer_timeout.count() == 0) return;
  timer_ =
      shard_.env().at(shard_.env().now() + std::min<base::Duration>(kLook, target_->options.answer_timeout), [this] {
        timer_ = base::TimerId::kNone;
        end_late();
        watch_time();
      });
}

void ShardModel::end_late() {
  const Time now = shard_.env().now();
  for (auto next = calls_.begin(); next != calls_.end();) {
    ForwardedCall& one = **next++;
    if (!one.attempt && !one.hedge) continue;  // it waits for others of its sequence
    if (!one.waiting.empty() || now - one.progress < target_->options.answer_timeout) continue;
    one.late = true;
    if (one.attempt) one.hedge.reset();
    Attempt& attempt = one.attempt ? *one.attempt : *one.hedge->attempt;
    attempt.give_up_late(failure(Code::kDeadlineExceeded,
                                 "it has not answered within " + base::show_duration(target_->options.answer_timeout)));
  }
}

}  // namespace weir::forward
