#include "sched/decoupled_inbox.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "bus/load_notes.h"
#include "bus/mail_bursts.h"
#include "bus/response_stats.h"
#include "msg/credit.h"
#include "msg/priority.h"
#include "msg/tenant.h"

namespace weir::sched {
namespace {

using base::Code;
using base::failure;
using base::Status;
using base::Time;

constexpr int kAnswersPerTurn = 256;  // then the other models of the timer's thread have their turn

Time after(Time now, base::Duration d) { return d == AnswerSeries::kNotYet ? base::kNever : now + d; }

uint64_t nanoseconds(base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); }

// Calls are ordered by when their next answer is due. One without credit is at kNever until poke() finds that it has
// some, and one whose engine has no answer yet until resume_all() finds that it has.
class DecoupledInbox final : public msg::Inbox,
                             public bus::CountsResponses,
                             public bus::HasLoadNotes,
                             private DeadlineTimer::Listener {
 public:
  DecoupledInbox(std::unique_ptr<DecoupledEngine> engine, const msg::ModelSpec& spec, bus::ModelStats& stats,
                 base::ShareRule share, std::shared_ptr<DeadlineTimer> timer)
      : engine_(std::move(engine)), spec_(spec), stats_(stats), share_(share), timer_(std::move(timer)) {
    engine_->on_answers([this] { resume_all(); });
  }
  ~DecoupledInbox() override {
    engine_.reset();  // it may call resume_all()
    timer_->remove(*this);
  }

  void put(msg::Call* call) override {
    Status status = begin(*call);
    if (status.ok()) return;
    stats_.add_failure(status.code, 0);
    call->home->post_here({call, {msg::Failed{std::move(status)}}});
  }

  void poke() override {
    std::lock_guard lock(mutex_);
    for (auto at = inside_.begin(); at != inside_.end();) {
      auto here = at++;
      if (here->first == Time::min()) continue;  // it has been moved already
      const msg::Call& call = *here->second.call;
      const bool room = here->first == base::kNever && call.credit.load(std::memory_order_acquire) > 0;
      if (room) here->second.answers->note_room();
      const bool parked = room && here->second.answers->next_in() != AnswerSeries::kNotYet;
      if (parked || call.cancelled.load(std::memory_order_acquire)) move(inside_.extract(here), Time::min());
    }
    (void)set_timer();
  }

 private:
  struct Inside {
    msg::Call* call = nullptr;
    std::unique_ptr<AnswerSeries> answers;
    Time last = base::kNever;    // its last answer, or its beginning
    Time leaves = base::kNever;  // when it has waited too long, if the engine has not begun it by then
    uint32_t answered = 0;
  };
  using Line = std::multimap<Time, Inside>;

  Status begin(msg::Call& call);
  void resume_all();
  Status admit(const msg::Call& call) const;
  void on_deadline() override;
  Time leaves_at(const msg::Call& call, Time now) const {
    const auto& policy = msg::queue_policy(spec_, msg::level_of(spec_, call.priority));
    return msg::leaves_at(policy, call.queue_timeout, now);
  }
  void leave(Time now, bus::MailBursts& out);
  void step(Line::node_type node, bus::MailBursts& out);
  void move(Line::node_type node, Time when) {
    node.key() = when;
    inside_.insert(std::move(node));
  }
  void finish(Inside& inside, Status status, bus::MailBursts& out, msg::Outputs last = {});
  void count(const Inside& inside, const Status& status, Time now);
  bool set_timer() {
    const Time first = std::min(leaves_at_, inside_.empty() ? base::kNever : inside_.begin()->first);
    return first == base::kNever || timer_->set(*this, std::max(first, timer_->now()));
  }

  std::unique_ptr<DecoupledEngine> engine_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  const base::ShareRule share_;
  const std::shared_ptr<DeadlineTimer> timer_;
  std::mutex mutex_;  // over all that follows
  Line inside_;
  Time leaves_at_ = base::kNever;                 // not later than the first of them leaves
  std::unordered_map<uint64_t, size_t> tenants_;  // Calls inside of each
};

// Under mutex_.
Status DecoupledInbox::admit(const msg::Call& call) const {
  const uint32_t most = spec_.batching.max_queue;
  if (most == 0) return {};
  if (inside_.size() >= most)
    return base::try_again(Code::kResourceExhausted, "model '" + spec_.name + "' answers " + std::to_string(most) +
                                                         " requests already; try again later");
  auto held = tenants_.find(call.tenant);
  const size_t own = held == tenants_.end() ? 0 : held->second;
  if (call.tenant == 0 || msg::speaks_for_many(call.tenant) || share_.allows(own, 1, inside_.size(), most)) return {};
  return base::try_again(Code::kResourceExhausted, "model '" + spec_.name + "' answers " + std::to_string(own) +
                                                       " requests of yours, and more than half of all that it can "
                                                       "(limits.client_share); try again later");
}

// On an exception the Call has not come in.
Status DecoupledInbox::begin(msg::Call& call) {
  if (call.cancelled.load(std::memory_order_acquire)) return failure(Code::kCancelled, "the client has left");
  {
    std::lock_guard lock(mutex_);
    if (Status full = admit(call); !full.ok()) return full;
  }
  auto answers = engine_->begin(call);
  if (!answers) return std::move(answers).error();
  std::lock_guard lock(mutex_);
  if (Status full = admit(call); !full.ok()) return full;  // another one has come in meanwhile
  const Time now = timer_->now();
  call.times.started = call.times.computing = now;
  call.times.batch_rows = 1;
  const Time due = after(now, (*answers)->next_in().value_or(base::Duration(0)));
  size_t& own = tenants_[call.tenant];
  const Time leaves = (*answers)->begun() ? base::kNever : leaves_at(call, now);
  auto at = inside_.emplace(due, Inside{&call, std::move(*answers), now, leaves, 0});
  leaves_at_ = std::min(leaves_at_, leaves);
  if (set_timer()) return ++own, Status();
  inside_.erase(at);
  if (own == 0) tenants_.erase(call.tenant);
  return base::try_again(Code::kResourceExhausted, "no thread could be started to answer; try again later");
}

// The engine has answers, or ends, that it did not have. Any thread.
void DecoupledInbox::resume_all() {
  std::lock_guard lock(mutex_);
  for (auto at = inside_.lower_bound(base::kNever); at != inside_.end();) {
    auto here = at++;
    if (here->second.answers->next_in() != AnswerSeries::kNotYet) move(inside_.extract(here), Time::min());
  }
  (void)set_timer();
}

void DecoupledInbox::on_deadline() {
  bus::MailBursts out;
  {
    std::lock_guard lock(mutex_);
    const Time now = timer_->now();
    if (leaves_at_ <= now) leave(now, out);
    for (int steps = 0; steps < kAnswersPerTurn && !inside_.empty() && inside_.begin()->first <= now; ++steps)
      step(inside_.extract(inside_.begin()), out);
    (void)set_timer();
  }
  out.post();  // the destructor waits for the end of this
}

// Under mutex_: those that have waited too long.
void DecoupledInbox::leave(Time now, bus::MailBursts& out) {
  leaves_at_ = base::kNever;
  for (auto at = inside_.begin(); at != inside_.end();) {
    auto here = at++;
    Inside& inside = here->second;
    if (inside.leaves == base::kNever) continue;
    if (inside.answers->begun()) {
      inside.leaves = base::kNever;
    } else if (inside.leaves > now) {
      leaves_at_ = std::min(leaves_at_, inside.leaves);
    } else {
      auto node = inside_.extract(here);
      finish(node.mapped(),
             base::try_again(Code::kUnavailable,
                             "the request waited too long in the queue of model '" + spec_.name + "'; try again later"),
             out);
    }
  }
}

// One answer, the end, or nothing while the peer has no room.
void DecoupledInbox::step(Line::node_type node, bus::MailBursts& out) {
  Inside& inside = node.mapped();
  msg::Call& call = *inside.call;
  if (call.cancelled.load(std::memory_order_acquire))
    return finish(inside, failure(Code::kCancelled, "the client has left"), out);
  const auto due = inside.answers->next_in();
  if (!due) return finish(inside, {}, out);
  if (*due == AnswerSeries::kNotYet) return move(std::move(node), base::kNever);
  if (call.credit.load(std::memory_order_acquire) <= 0) return move(std::move(node), base::kNever);
  base::Result<msg::Event> next = msg::Event();
  auto thrown = base::attempt("a decoupled model", [&] { next = inside.answers->next(); });
  if (!thrown.ok()) next = std::move(thrown);
  if (!next) return finish(inside, std::move(next).error(), out);
  auto* failed = std::get_if<msg::Failed>(&next->what);
  if (failed && !call.takes_errors) return finish(inside, std::move(failed->status), out);
  const auto wait = inside.answers->next_in();
  const Time now = timer_->now();
  if (!failed && inside.answered == 0) first_.add(nanoseconds(now - call.times.queued));
  count(inside, failed ? failed->status : Status(), now);
  auto* answer = std::get_if<msg::Outputs>(&next->what);
  if (answer && answer->final && !wait) return finish(inside, {}, out, std::move(*answer));
  (failed ? failed->final : answer->final) = false;
  const int32_t cost = msg::credit_of(*next);
  if (call.credit.fetch_sub(cost, std::memory_order_acq_rel) > cost) inside.answers->note_room();
  out.add(call.home, {&call, std::move(*next)});
  inside.last = now, ++inside.answered;
  if (!wait) return finish(inside, {}, out);
  move(std::move(node), after(now, *wait));
}

// Counts one answer, or a failure in its place.
void DecoupledInbox::count(const Inside& inside, const Status& status, Time now) {
  responses_.add(inside.answered, status.code, nanoseconds(now - inside.last));
}

// `last` is the last answer, which has been counted, or empty.
void DecoupledInbox::finish(Inside& inside, Status status, bus::MailBursts& out, msg::Outputs last) {
  msg::Call& call = *inside.call;
  const Time now = timer_->now();
  call.times.computed = call.times.finished = now;
  if (auto held = tenants_.find(call.tenant); held != tenants_.end() && --held->second == 0) tenants_.erase(held);
  if (!status.ok()) {
    count(inside, status, now);
    stats_.add_failure(status.code, nanoseconds(now - call.times.queued));
    return out.add(call.home, {&call, {msg::Failed{std::move(status)}}});
  }
  if (last.tensors.empty()) responses_.at(inside.answered).empty.add(nanoseconds(now - inside.last));
  const auto& times = call.times;
  stats_.ran({.at_ms = base::unix_ms(),
              .whole_ns = nanoseconds(now - times.queued),
              .queue_ns = nanoseconds(times.started - times.queued),
              .infer_ns = nanoseconds(now - times.started)});
  stats_.record_batch(1, 0, nanoseconds(now - times.started), 0);
  last.final = true;
  out.add(call.home, {&call, {std::move(last)}});
}

}  // namespace

std::unique_ptr<msg::Inbox> make_decoupled(std::unique_ptr<DecoupledEngine> engine, const msg::ModelSpec& spec,
                                           bus::ModelStats& stats, base::ShareRule share,
                                           std::shared_ptr<DeadlineTimer> timer) {
  return std::make_unique<DecoupledInbox>(std::move(engine), spec, stats, share, std::move(timer));
}

}  // namespace weir::sched
