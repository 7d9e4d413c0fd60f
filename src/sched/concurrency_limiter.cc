#include "sched/concurrency_limiter.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "base/check.h"
#include "msg/priority.h"
#include "sched/fair_queue.h"

namespace weir::sched {

using base::Code;
using base::failure;
using base::Status;

namespace {

Status client_left() { return failure(Code::kCancelled, "the client has left"); }

}  // namespace

class LimitedInbox final : public ProxyInbox, private DeadlineTimer::Listener {
 public:
  LimitedInbox(std::shared_ptr<ConcurrencyLimiter> limiter, std::unique_ptr<msg::Inbox> inner,
               const msg::ModelSpec& spec, bus::ModelStats& stats, std::shared_ptr<DeadlineTimer> deadline_timer)
      : ProxyInbox(Receives::kAtOnce),
        limiter_(std::move(limiter)),
        spec_(spec),
        stats_(stats),
        deadline_timer_(deadline_timer ? std::move(deadline_timer) : std::make_shared<TimerThread>()),
        inner_(std::move(inner)) {}
  ~LimitedInbox() override {
    inner_.reset();  // its threads may still be inside post()
    while (joining_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    deadline_timer_->remove(*this);
    base::check(waiters_.empty(), "a limiter outlives its Calls");
  }

  void put(msg::Call* call) override;
  void poke() override;

  // A Call whose turn has come, on whatever thread.
  void start(msg::Call* call);

  // The Calls that wait here. Under the limiter's mutex, as is all down to push_out().
  size_t size() const { return order_.size(); }
  // From then on the Call may be answered, and this be destroyed, before put() is through.
  void join(msg::Call* call);
  msg::Call* first();
  // One that is to make room for a Call of `tenant`; null when the line has room, or that Call is the one to go.
  bool full() const { return spec_.batching.max_queue > 0 && size() >= spec_.batching.max_queue; }
  msg::Call* push_out(uint64_t tenant);

 private:
  // The home of a Call that waits, and when it came.
  struct Waiter {
    msg::Home* home = nullptr;
    base::Time queued = base::kNever;
    bool at_home = false;  // this thread is its home's: what comes back inside put() may be posted there
  };

  void receive(msg::Mail&& mail, bus::MailBursts& out) override;
  void post_here(msg::Mail&& mail) override;

  void let_in(msg::Call* call, const Waiter& waiter);
  Waiter restore_home(msg::Mail& mail);
  static void free_place(std::shared_ptr<ConcurrencyLimiter> limiter);
  void refuse(msg::Call* call, Status status);
  void refuse_here(msg::Call* call, Status status);
  void on_deadline() override;
  void set_timer(base::Time when);
  std::vector<msg::Call*> take_out(bool (LimitedInbox::*goes)(const msg::Call&) const);
  base::Time leaves_at(const msg::Call& call) const;
  bool late(const msg::Call& call) const { return leaves_at(call) <= deadline_timer_->now(); }
  bool cancelled(const msg::Call& call) const { return call.cancelled.load(std::memory_order_acquire); }
  Status too_long() const;
  Status too_many() const;
  void waits(int64_t more) { stats_.held.fetch_add(more, std::memory_order_relaxed); }

  const std::shared_ptr<ConcurrencyLimiter> limiter_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  const std::shared_ptr<DeadlineTimer> deadline_timer_;
  std::unique_ptr<msg::Inbox> inner_;

  std::atomic<uint32_t> joining_{0};  // put()s that have a Call in the line and are not through
  std::mutex mutex_;
  std::unordered_map<const msg::Call*, Waiter> waiters_;  // under mutex_
  base::Time timer_at_ = base::kNever;                    // under mutex_: the time to which the deadline timer is set
  FairQueue order_{1};                                    // under the limiter's mutex
  std::vector<msg::Call*> calls_;                         // by slot; the same
};

void LimitedInbox::join(msg::Call* call) {
  if (calls_.size() <= order_.size()) calls_.resize(order_.size() + 1);  // what throws has changed nothing
  auto slot = order_.push(call->tenant, 1);
  calls_[slot] = call;
  waits(1);
  joining_.fetch_add(1, std::memory_order_relaxed);
}

msg::Call* LimitedInbox::first() {
  auto slot = order_.first();
  order_.serve(slot);
  waits(-1);
  return calls_[slot];
}

msg::Call* LimitedInbox::push_out(uint64_t tenant) {
  auto slot = order_.surplus(tenant);
  if (slot == FairQueue::kNone) return nullptr;
  order_.leave(slot);
  waits(-1);
  return calls_[slot];
}

void ConcurrencyLimiter::set_most(uint32_t most) {
  std::lock_guard lock(mutex_);
  most_ = most;
}

uint32_t ConcurrencyLimiter::inside() const {
  std::lock_guard lock(mutex_);
  return inside_;
}

size_t ConcurrencyLimiter::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_;
}

// The poke() for a Call that was cancelled on its way here has not found it: the Call must not begin to wait.
ConcurrencyLimiter::Outcome ConcurrencyLimiter::enter(LimitedInbox& inbox, msg::Call* call, msg::Call*& pushed_out) {
  std::lock_guard lock(mutex_);
  if (inside_ < most_ && waiting_ == 0) return ++inside_, Outcome::kInside;
  if (call->cancelled.load(std::memory_order_acquire)) return Outcome::kGone;
  if (inbox.full()) {
    pushed_out = inbox.push_out(call->tenant);
    if (!pushed_out) return Outcome::kFull;
    --waiting_;
  } else if (inbox.size() == 0) {
    turns_.push_back(&inbox);
  }
  inbox.join(call);
  ++waiting_;
  return Outcome::kWaits;
}

bool ConcurrencyLimiter::next(Turn& out) {
  std::lock_guard lock(mutex_);
  if (waiting_ == 0 || inside_ >= most_) return false;
  auto* inbox = turns_.front();
  turns_.pop_front();
  out = {inbox, inbox->first()};
  if (inbox->size() > 0) turns_.push_back(inbox);
  ++inside_, --waiting_;
  return true;
}

void ConcurrencyLimiter::leave() {
  std::lock_guard lock(mutex_);
  base::check(inside_ > 0, "a Call that leaves has been inside");
  --inside_;
}

void ConcurrencyLimiter::resume() {
  for (Turn turn; next(turn);) turn.inbox->start(turn.call);
}

// Called inside of ProxyInbox::enter(): the place is free for the next Call when the thread has nothing else to do.
void LimitedInbox::free_place(std::shared_ptr<ConcurrencyLimiter> limiter) {
  limiter->leave();
  defer(std::move(limiter));
}

void LimitedInbox::put(msg::Call* call) {
  Waiter waiter{call->home, deadline_timer_->now(), true};
  base::Time leaves = leaves_at(*call);  // once it waits it may be anybody's
  msg::Call* pushed_out = nullptr;
  switch (limiter_->enter(*this, call, pushed_out)) {
    case ConcurrencyLimiter::Outcome::kInside: return let_in(call, waiter);
    case ConcurrencyLimiter::Outcome::kFull: return refuse_here(call, too_many());
    case ConcurrencyLimiter::Outcome::kGone: return refuse_here(call, client_left());
    case ConcurrencyLimiter::Outcome::kWaits:
      (void)base::attempt("a limiter", [&] { set_timer(leaves); });
      if (pushed_out) refuse(pushed_out, too_many());
      joining_.fetch_sub(1, std::memory_order_release);  // this may be gone afterwards
      return;
  }
}

// On an exception the caller has the Call, and its place is free again.
void LimitedInbox::let_in(msg::Call* call, const Waiter& waiter) {
  enter([&] {
    try {
      {
        std::lock_guard lock(mutex_);
        waiters_.emplace(call, waiter);
      }
      call->home = this;
      inner_->put(call);  // this may be gone afterwards
    } catch (...) {
      {
        std::lock_guard lock(mutex_);
        waiters_.erase(call);
      }
      call->home = waiter.home;
      free_place(limiter_);
      throw;
    }
  });
}

void LimitedInbox::start(msg::Call* call) {
  if (bool left = cancelled(*call); left || late(*call)) {
    auto limiter = limiter_;
    refuse(call, left ? client_left() : too_long());
    return free_place(std::move(limiter));
  }
  base::Time now = deadline_timer_->now();
  auto waited = std::max<int64_t>((now - call->times.queued).count(), 0);
  stats_.queue.add(uint64_t(waited), 0);  // the lane counts it once, with what it waits there
  auto status = base::attempt("a limiter", [&] { let_in(call, {call->home, call->times.queued, false}); });
  if (!status.ok()) refuse(call, std::move(status));
}

base::Time LimitedInbox::leaves_at(const msg::Call& call) const {
  const auto& policy = msg::queue_policy(spec_, msg::level_of(spec_, call.priority));
  return msg::leaves_at(policy, call.queue_timeout, call.times.queued);
}

Status LimitedInbox::too_long() const {
  return base::try_again(Code::kUnavailable, "the request waited longer than its queue timeout for model '" +
                                                 spec_.name + "'" + std::string(limiter_->waits_for_) +
                                                 "; try again later");
}

Status LimitedInbox::too_many() const {
  return base::try_again(Code::kResourceExhausted, "too many requests wait for model '" + spec_.name + "' (limit " +
                                                       std::to_string(spec_.batching.max_queue) + "); try again later");
}

void LimitedInbox::set_timer(base::Time when) {
  std::lock_guard lock(mutex_);
  if (when >= timer_at_) return;
  if (deadline_timer_->set(*this, when)) timer_at_ = when;
}

void LimitedInbox::refuse(msg::Call* call, Status status) {
  call->times.finished = deadline_timer_->now();
  auto waited = std::max<int64_t>((call->times.finished - call->times.queued).count(), 0);
  stats_.add_failure(status.code, uint64_t(waited));
  bus::post_one(call, {msg::Failed{std::move(status)}});
}

void LimitedInbox::refuse_here(msg::Call* call, Status status) {
  stats_.add_failure(status.code, 0);
  call->home->post_here({call, {msg::Failed{std::move(status)}}});
}

// Those that wait in this Inbox and are to go.
std::vector<msg::Call*> LimitedInbox::take_out(bool (LimitedInbox::*goes)(const msg::Call&) const) {
  std::vector<msg::Call*> taken;
  std::lock_guard lock(limiter_->mutex_);
  for (auto slot = order_.first(); slot != FairQueue::kNone;) {
    auto here = std::exchange(slot, order_.after(slot));
    if (!(this->*goes)(*calls_[here])) continue;
    taken.push_back(calls_[here]);
    order_.leave(here);
  }
  if (taken.empty()) return taken;
  limiter_->waiting_ -= taken.size();
  if (size() == 0) std::erase(limiter_->turns_, this);
  waits(-int64_t(taken.size()));
  return taken;
}

void LimitedInbox::poke() {
  auto taken = take_out(&LimitedInbox::cancelled);
  inner_->poke();
  for (auto* call : taken) refuse(call, client_left());
}

// On the deadline timer's thread.
void LimitedInbox::on_deadline() {
  {
    std::lock_guard lock(mutex_);
    timer_at_ = base::kNever;
  }
  auto taken = take_out(&LimitedInbox::late);
  base::Time next = base::kNever;
  {
    std::lock_guard lock(limiter_->mutex_);
    for (auto slot = order_.first(); slot != FairQueue::kNone; slot = order_.after(slot))
      next = std::min(next, leaves_at(*calls_[slot]));
  }
  set_timer(next);
  for (auto* call : taken) refuse(call, too_long());
}

// The waiter's own home, which it has again after its last Event.
LimitedInbox::Waiter LimitedInbox::restore_home(msg::Mail& mail) {
  std::lock_guard lock(mutex_);
  auto at = waiters_.find(mail.call);
  base::check(at != waiters_.end(), "Events name a Call that is inside");
  Waiter waiter = at->second;
  if (!mail.event.last()) return waiter;
  waiters_.erase(at);
  mail.call->home = waiter.home;
  mail.call->times.queued = waiter.queued;
  return waiter;
}

void LimitedInbox::receive(msg::Mail&& mail, bus::MailBursts& out) {
  const bool last = mail.event.last();
  out.add(restore_home(mail).home, std::move(mail));
  if (last) free_place(limiter_);
}

// A Call that came in on its home's own thread is answered there without a lock.
void LimitedInbox::post_here(msg::Mail&& mail) {
  enter([&] {
    auto limiter = limiter_;
    const bool last = mail.event.last();
    Waiter waiter = restore_home(mail);
    if (waiter.at_home) {
      waiter.home->post_here(std::move(mail));
    } else {
      bus::MailBursts out;
      out.add(waiter.home, std::move(mail));
      out.post();  // this may be gone afterwards; the limiter is not
    }
    if (last) free_place(std::move(limiter));
  });
}

std::unique_ptr<msg::Inbox> behind(std::shared_ptr<ConcurrencyLimiter> limiter, std::unique_ptr<msg::Inbox> inner,
                                   const msg::ModelSpec& spec, bus::ModelStats& stats,
                                   std::shared_ptr<DeadlineTimer> deadline_timer) {
  return std::make_unique<LimitedInbox>(std::move(limiter), std::move(inner), spec, stats, std::move(deadline_timer));
}

}  // namespace weir::sched
