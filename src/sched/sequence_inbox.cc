#include "sched/sequence_inbox.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/check.h"
#include "base/until_done.h"
#include "msg/priority.h"
#include "sched/proxy_inbox.h"
#include "sched/sequence_batcher.h"
#include "sched/sequence_tensors.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Status;

size_t slots_of(const msg::ModelSpec& spec, const msg::SequenceSpec& sequences) {
  if (sequences.strategy == msg::SequenceSpec::Strategy::kDirect)
    return size_t(std::max(1u, spec.instances)) * std::max(1u, spec.max_batch);
  return sequences.max_candidates > 0 ? sequences.max_candidates : kDefaultCandidates;
}

// "5", or the string as it came; at most kMaxCorrelationId bytes.
std::string id_text(const msg::ParamValue& id) {
  if (auto* text = std::get_if<std::string>(&id)) return *text;
  if (auto* u = std::get_if<uint64_t>(&id)) return std::to_string(*u);
  return std::to_string(std::get<int64_t>(id));
}

// A request that the model has begun, and answers with a failure, does not end its sequence, whatever the code.
bool ends_sequence(const msg::Call& call, Code code) {
  return msg::ends_sequence(code) && (code == Code::kCancelled || call.times.started == base::kNever);
}

Status ended_by(const Status& why) {
  return failure(why.code, "another request of the sequence was not answered, which has ended it: " + why.text);
}

class SequenceInbox final : public ProxyInbox, public msg::KeepsSequences, private DeadlineTimer::Listener {
 public:
  SequenceInbox(std::vector<std::unique_ptr<msg::Inbox>> inner, std::shared_ptr<const msg::ModelSpec> whole,
                std::shared_ptr<const msg::SequenceSpec> sequences, bus::ModelStats& stats, base::MemoryLedger* ledger,
                base::ShareRule share, std::shared_ptr<DeadlineTimer> deadline_timer)
      : ProxyInbox(Receives::kDeferred),
        whole_(std::move(whole)),
        sequences_(std::move(sequences)),
        stats_(stats),
        ledger_(ledger),
        deadline_timer_(deadline_timer ? std::move(deadline_timer) : std::make_shared<TimerThread>()),
        tensors_(*whole_, *sequences_),
        batcher_({slots_of(*whole_, *sequences_),
                  sequences_->queue.max_queue > 0 ? sequences_->queue.max_queue : SIZE_MAX, sequences_->idle, share,
                  inner.size()}),
        inner_(std::move(inner)) {}
  ~SequenceInbox() override {
    inner_.clear();  // its threads may still be inside post()
    while (joining_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    deadline_timer_->remove(*this);
    base::check(inside_.empty(), "an Inbox of sequences outlives its Calls");
  }

  void put(msg::Call* call) override;
  void poke() override;
  const msg::SequenceSpec& sequences() const override { return *sequences_; }

 private:
  // A Call from put() to its answer.
  struct Inside {
    msg::Home* home = nullptr;
    base::Time queued = base::kNever;
    SequencePosition position;
    SequenceBatcher::Sequence* sequence = nullptr;  // once it runs
    bool has_tensors = false;                       // those of its sequence
  };
  using Runs = std::vector<SequenceBatcher::Run>;

  base::Result<SequencePosition> position_of(const msg::Call& call) const;
  Status accept(msg::Call& call, SequencePosition&& position, Runs& runs);
  Status arrive(msg::Call& call, SequencePosition&& position);
  Status refused(SequenceBatcher::Arrival arrival, const std::string& id) const;
  void take_ready(Runs& runs);
  void start(const SequenceBatcher::Run& run);
  Status add_tensors(const SequenceBatcher::Run& run);
  void receive(msg::Mail&& mail, bus::MailBursts& out) override;
  Status keep_state(SequenceBatcher::Sequence& sequence, msg::Event& event);
  void refuse_dropped(const std::vector<msg::Call*>& dropped, const Status& why, bus::MailBursts& out);
  template <class Drop>
  void drop(Status (SequenceInbox::*why)() const, Drop&& drop);
  Status cancelled() const;
  Status timed_out() const;
  void on_deadline() override;
  void tell_changes();
  base::Time leaves_at(const msg::Call& call) const {
    const auto& policy = msg::queue_policy(sequences_->queue, msg::level_of(*whole_, call.priority));
    return msg::leaves_at(policy, call.queue_timeout, call.times.queued);
  }

  const std::shared_ptr<const msg::ModelSpec> whole_;
  const std::shared_ptr<const msg::SequenceSpec> sequences_;
  bus::ModelStats& stats_;
  base::MemoryLedger* const ledger_;
  const std::shared_ptr<DeadlineTimer> deadline_timer_;
  const SequenceTensors tensors_;
  std::atomic<uint32_t> joining_{0};  // put()s that are not through
  std::mutex mutex_;                  // over all that follows but the Inbox
  SequenceBatcher batcher_;
  std::unordered_map<const msg::Call*, Inside> inside_;  // by address, which no client chooses
  int64_t waiting_ = 0;                                  // Calls that wait, as the metrics have it
  base::Time waiting_until_ = base::kNever;              // when the first of the Calls that wait leaves, or sooner
  std::vector<std::unique_ptr<msg::Inbox>> inner_;       // by the instance that a sequence is bound to
};

// Triton's words, which its clients compare.
base::Result<SequencePosition> SequenceInbox::position_of(const msg::Call& call) const {
  const std::string to_model = "inference request to model '" + whole_->name + "' must specify ";
  const auto* id = msg::find(call.parameters, "sequence_id");
  if (!id || !call.session) return base::invalid(to_model + "a non-zero or non-empty correlation ID");
  if (auto* text = std::get_if<std::string>(id); text && text->size() > kMaxCorrelationId)
    return base::invalid("the sequence id has " + std::to_string(text->size()) + " bytes; at most " +
                         std::to_string(kMaxCorrelationId) + " are possible");
  if (whole_->max_batch > 0 && call.rows != 1)
    return base::invalid(to_model + "batch-size 1 due to requirements of sequence batcher");
  if (auto bad = tensors_.check_id(*id); !bad.ok()) return bad;
  return SequencePosition{msg::is_set(call.parameters, "sequence_start"), msg::is_set(call.parameters, "sequence_end"),
                          *id};
}

void SequenceInbox::put(msg::Call* call) {
  joining_.fetch_add(1, std::memory_order_relaxed);
  auto position = position_of(*call);
  Runs runs;
  Status status = position ? Status() : position.error();
  if (status.ok()) {
    auto thrown = base::attempt("sequences", [&] { status = accept(*call, std::move(*position), runs); });
    if (!thrown.ok()) status = std::move(thrown);
  }
  if (!status.ok()) {
    stats_.add_failure(status.code, 0);
    call->home->post_here({call, {msg::Failed{std::move(status)}}});
  }
  enter([&] {
    for (const auto& run : runs) start(run);
    joining_.fetch_sub(1, std::memory_order_release);  // this may be gone afterwards
  });
}

Status SequenceInbox::refused(SequenceBatcher::Arrival arrival, const std::string& id) const {
  const std::string of = "for model '" + whole_->name + "'";
  switch (arrival) {
    case SequenceBatcher::Arrival::kAccepted: return {};
    case SequenceBatcher::Arrival::kNotStarted:
      return base::invalid("inference request for sequence " + id + " to model '" + whole_->name +
                           "' must specify the START flag on the first request of the sequence");
    case SequenceBatcher::Arrival::kFull:
      return base::try_again(Code::kResourceExhausted, "too many sequences wait " + of + " (limit " +
                                                           std::to_string(sequences_->queue.max_queue) +
                                                           "); try again later");
    case SequenceBatcher::Arrival::kOverShare:
      return base::try_again(Code::kResourceExhausted,
                             "too many of your sequences wait " + of +
                                 ", and more than half of all that may (limits.client_share); try again later");
    case SequenceBatcher::Arrival::kPipelineFull: break;
  }
  return failure(Code::kResourceExhausted,
                 "too many requests of sequence " + id + " wait " + of + ", which has ended it");
}

// Under mutex_. On a failure the Call has not come in.
Status SequenceInbox::arrive(msg::Call& call, SequencePosition&& position) {
  if (call.cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "the client has left");
  const SequenceBatcher::Request request{&call, position.start, position.end};
  const std::string id = id_text(position.id);
  inside_.emplace(&call, Inside{call.home, call.times.queued, std::move(position), nullptr, false});
  auto arrival = batcher_.arrive({call.tenant, call.session}, request, deadline_timer_->now());
  return arrival == SequenceBatcher::Arrival::kAccepted ? Status() : refused(arrival, id);
}

// Where the Call is refused its sequence ends, if it has begun.
Status SequenceInbox::accept(msg::Call& call, SequencePosition&& position, Runs& runs) {
  std::lock_guard lock(mutex_);
  Status status;
  auto thrown = base::attempt("sequences", [&] {
    runs.reserve(1);
    status = arrive(call, std::move(position));
  });
  if (!thrown.ok()) status = std::move(thrown);
  if (!status.ok()) inside_.erase(&call);
  if (!status.ok() && status.code != Code::kInvalidArgument)
    batcher_.end_early({call.tenant, call.session}, deadline_timer_->now());
  take_ready(runs);
  // A call that runs now may be another one, which has got the slot of a sequence that has expired.
  if (status.ok() && std::none_of(runs.begin(), runs.end(), [&](const auto& run) { return run.request.call == &call; }))
    waiting_until_ = std::min(waiting_until_, leaves_at(call));
  tell_changes();
  return status;
}

// Under mutex_. What does not fit into `runs` for want of memory goes with the next ones.
void SequenceInbox::take_ready(Runs& runs) {
  for (SequenceBatcher::Run run; batcher_.next(run);) {
    base::until_done("sequences", [&] { runs.push_back(run); });
    inside_.at(run.request.call).sequence = run.sequence;
  }
}

// Without a lock: the request of a sequence that runs has the sequence for itself.
Status SequenceInbox::add_tensors(const SequenceBatcher::Run& run) {
  msg::Call& call = *run.request.call;
  Inside* inside;
  {
    std::lock_guard lock(mutex_);
    inside = &inside_.at(&call);
  }
  if (call.cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "the client has left");
  if (run.request.start) run.sequence->state.clear();
  const size_t inputs = call.inputs.size(), outputs = call.outputs.size();
  auto status = base::attempt("sequences", [&] { tensors_.add(call, inside->position, run.sequence->state); });
  inside->has_tensors = status.ok();
  if (status.ok()) return status;
  call.inputs.resize(inputs);
  call.outputs.resize(outputs);
  return status;
}

// Inside of enter().
void SequenceInbox::start(const SequenceBatcher::Run& run) {
  msg::Call* call = run.request.call;
  Status status = add_tensors(run);
  call->home = this;
  if (status.ok()) status = base::attempt("a queue", [&] { inner_[run.sequence->instance()]->put(call); });
  if (!status.ok()) base::until_done("sequences", [&] { post_here({call, {msg::Failed{status}}}); });
}

Status SequenceInbox::keep_state(SequenceBatcher::Sequence& sequence, msg::Event& event) {
  auto* outputs = std::get_if<msg::Outputs>(&event.what);
  if (!outputs || sequences_->states.empty()) return {};
  if (ledger_ && sequence.charge.bytes() == 0)
    sequence.charge = base::MemoryCharge(*ledger_, base::MemoryKind::kSessions);
  Status status;
  auto thrown =
      base::attempt("sequences", [&] { status = tensors_.take(outputs->tensors, sequence.state, sequence.charge); });
  return thrown.ok() ? status : thrown;
}

// Nothing else runs in proxies of this thread, so that what comes next may be put at once.
void SequenceInbox::receive(msg::Mail&& mail, bus::MailBursts& out) {
  Runs runs;
  std::vector<msg::Call*> dropped;
  Status why;
  {
    std::unique_lock lock(mutex_);
    Inside& inside = inside_.at(mail.call);
    if (!mail.event.last()) return out.add(inside.home, std::move(mail));
    auto& sequence = *inside.sequence;
    const bool has_tensors = inside.has_tensors;
    mail.call->home = inside.home;
    mail.call->times.queued = inside.queued;
    inside_.erase(mail.call);
    lock.unlock();
    const Status bad = keep_state(sequence, mail.event);
    if (!bad.ok()) mail.event = {msg::Failed{bad}};
    if (has_tensors) tensors_.remove(*mail.call);
    lock.lock();
    const auto* failed = std::get_if<msg::Failed>(&mail.event.what);
    const bool aborts = failed && (msg::ends_sequence(bad.code) || ends_sequence(*mail.call, failed->status.code));
    using Finish = SequenceBatcher::Finish;
    if (aborts)
      base::until_done("sequences", [&] {
        why = ended_by(failed->status);
        dropped.reserve(batcher_.waiting());
      });
    const base::Time now = deadline_timer_->now();
    if (batcher_.finish(sequence, aborts ? Finish::kAborts : Finish::kAnswered, now, dropped)) waiting_until_ = now;
    take_ready(runs);
    tell_changes();
  }
  refuse_dropped(dropped, why, out);
  for (const auto& run : runs) start(run);
  out.add(mail.call->home, std::move(mail));  // this may be gone once that is posted
}

// Calls that have waited, and of which the batcher knows no more.
void SequenceInbox::refuse_dropped(const std::vector<msg::Call*>& dropped, const Status& why, bus::MailBursts& out) {
  for (auto* call : dropped) {
    const bool left = call->cancelled.load(std::memory_order_acquire);
    Status status = left ? failure(Code::kCancelled, "the client has left") : why;
    {
      std::lock_guard lock(mutex_);
      inside_.erase(call);
    }
    call->times.finished = deadline_timer_->now();
    stats_.add_failure(status.code, 0);
    out.add(call->home, {call, {msg::Failed{std::move(status)}}});
  }
}

Status SequenceInbox::cancelled() const { return ended_by(failure(Code::kCancelled, "cancelled")); }

// It begins with Triton's words.
Status SequenceInbox::timed_out() const {
  return base::try_again(
      Code::kUnavailable,
      "timeout of the corresponding sequence has been expired: it waited too long for a slot of model '" +
          whole_->name + "'; try again later");
}

template <class Drop>
void SequenceInbox::drop(Status (SequenceInbox::*why)() const, Drop&& drop) {
  enter([&] {
    bus::MailBursts out;
    Runs runs;
    std::vector<msg::Call*> dropped;
    {
      std::lock_guard lock(mutex_);
      if (batcher_.waiting() > 0) (void)base::attempt("sequences", [&] { drop(dropped); });
      take_ready(runs);
      tell_changes();
    }
    for (const auto& run : runs) start(run);
    if (!dropped.empty()) refuse_dropped(dropped, (this->*why)(), out);
    out.post();  // this may be gone afterwards
  });
}

void SequenceInbox::poke() {
  for (auto& inbox : inner_) inbox->poke();
  drop(&SequenceInbox::cancelled, [this](auto& dropped) {
    auto gone = [](const msg::Call& call) { return call.cancelled.load(std::memory_order_acquire); };
    batcher_.drop(gone, deadline_timer_->now(), dropped);
  });
}

// On the deadline timer's thread.
void SequenceInbox::on_deadline() {
  const base::Time now = deadline_timer_->now();
  {
    std::lock_guard lock(mutex_);
    batcher_.expire(now);
    waiting_until_ = base::kNever;
  }
  auto late = [this, now](const msg::Call& call) {
    const base::Time leaves = leaves_at(call);
    if (leaves > now) waiting_until_ = std::min(waiting_until_, leaves);
    return leaves <= now;
  };
  drop(&SequenceInbox::timed_out, [&](auto& dropped) { batcher_.time_out(late, now, dropped); });
}

// Under mutex_, after each change: for the metrics, and for when there is something to do.
void SequenceInbox::tell_changes() {
  const auto waiting = int64_t(batcher_.waiting());
  stats_.held.fetch_add(waiting - std::exchange(waiting_, waiting), std::memory_order_relaxed);
  const base::Time when = std::min(batcher_.expires_at(), waiting_until_);
  if (when != base::kNever) deadline_timer_->set(*this, when);
}

}  // namespace

std::unique_ptr<msg::Inbox> with_sequences(std::vector<std::unique_ptr<msg::Inbox>> inner,
                                           std::shared_ptr<const msg::ModelSpec> whole,
                                           std::shared_ptr<const msg::SequenceSpec> sequences, bus::ModelStats& stats,
                                           base::MemoryLedger* ledger, base::ShareRule share,
                                           std::shared_ptr<DeadlineTimer> deadline_timer) {
  return std::make_unique<SequenceInbox>(std::move(inner), std::move(whole), std::move(sequences), stats, ledger, share,
                                         std::move(deadline_timer));
}

}  // namespace weir::sched
