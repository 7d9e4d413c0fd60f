#include "sched/turnstile.h"

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
#include "sched/runner.h"
#include "sched/until_done.h"

namespace weir::sched {

using base::Code;
using base::failure;
using base::Status;

namespace {

Status client_left() { return failure(Code::kCancelled, "the client has left"); }

}  // namespace

class Gated final : public msg::Inbox, private msg::Home, private Alarm::Bell {
 public:
  Gated(std::shared_ptr<Turnstile> turnstile, std::unique_ptr<msg::Inbox> inner, const msg::ModelSpec& spec,
        bus::ModelStats& stats, std::shared_ptr<Alarm> alarm)
      : turnstile_(std::move(turnstile)),
        spec_(spec),
        stats_(stats),
        alarm_(alarm ? std::move(alarm) : std::make_shared<AlarmClock>()),
        inner_(std::move(inner)) {}
  ~Gated() override {
    inner_.reset();  // its threads may still be inside post()
    while (joining_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    alarm_->remove(*this);
    base::check(guests_.empty(), "a turnstile outlives its Calls");
  }

  void put(msg::Call* call) override;
  void poke() override;

  // A Call whose turn has come, on whatever thread.
  void start(msg::Call* call);

  // The Calls that wait here. Under the turnstile's mutex; each leaves what it says to size().
  size_t size() const { return order_.size(); }
  // From then on the Call may be answered, and this be told to go, before put() is through.
  void join(msg::Call* call);
  msg::Call* first();
  // One that is to make room for a Call of `tenant`; null when the line has room, or that Call is the one to go.
  bool full() const { return spec_.batching.max_queue > 0 && size() >= spec_.batching.max_queue; }
  msg::Call* push_out(uint64_t tenant);

 private:
  // What a Call was before it came in.
  struct Guest {
    msg::Home* home = nullptr;
    base::Time queued = base::kNever;
    bool at_home = false;  // this thread is its home's: what comes back inside put() may be posted there
  };
  class Porter;

  void post(std::vector<msg::Mail>& burst) override;
  void post_here(msg::Mail&& mail) override;

  void let_in(msg::Call* call, const Guest& guest);
  Guest farewell(msg::Mail& mail);
  void refuse(msg::Call* call, Status status);
  void refuse_here(msg::Call* call, Status status);
  void ring() override;
  void ring_at(base::Time when);
  std::vector<msg::Call*> take_out(bool (Gated::*goes)(const msg::Call&) const);
  base::Time leaves_at(const msg::Call& call) const;
  bool late(const msg::Call& call) const { return leaves_at(call) <= alarm_->now(); }
  bool cancelled(const msg::Call& call) const { return call.cancelled.load(std::memory_order_acquire); }
  Status too_long() const;
  Status too_many() const;
  void waits(int64_t more) { stats_.held.fetch_add(more, std::memory_order_relaxed); }

  const std::shared_ptr<Turnstile> turnstile_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  const std::shared_ptr<Alarm> alarm_;
  std::unique_ptr<msg::Inbox> inner_;

  std::atomic<uint32_t> joining_{0};  // put()s that have a Call in the line and are not through
  std::mutex mutex_;
  std::unordered_map<const msg::Call*, Guest> guests_;  // under mutex_
  base::Time rings_at_ = base::kNever;                  // under mutex_: what the alarm is set to
  FairQueue order_{1};                                  // under the turnstile's mutex
  std::vector<msg::Call*> calls_;                       // by slot; the same
};

void Gated::join(msg::Call* call) {
  if (calls_.size() <= order_.size()) calls_.resize(order_.size() + 1);  // what throws has changed nothing
  auto slot = order_.push(call->tenant, 1);
  calls_[slot] = call;
  waits(1);
  joining_.fetch_add(1, std::memory_order_relaxed);
}

msg::Call* Gated::first() {
  auto slot = order_.first();
  order_.serve(slot);
  waits(-1);
  return calls_[slot];
}

msg::Call* Gated::push_out(uint64_t tenant) {
  auto slot = order_.surplus(tenant);
  if (slot == FairQueue::kNone) return nullptr;
  order_.leave(slot);
  waits(-1);
  return calls_[slot];
}

uint32_t Turnstile::inside() const {
  std::lock_guard lock(mutex_);
  return inside_;
}

size_t Turnstile::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_;
}

// A Call that was cancelled on its way here is not found by the poke() that told so: it must not begin to wait.
Turnstile::Entry Turnstile::enter(Gated& gate, msg::Call* call, msg::Call*& pushed_out) {
  std::lock_guard lock(mutex_);
  if (inside_ < most_ && waiting_ == 0) return ++inside_, Entry::kInside;
  if (call->cancelled.load(std::memory_order_acquire)) return Entry::kGone;
  if (gate.full()) {
    pushed_out = gate.push_out(call->tenant);
    if (!pushed_out) return Entry::kFull;
    --waiting_;
  } else if (gate.size() == 0) {
    turns_.push_back(&gate);
  }
  gate.join(call);
  ++waiting_;
  return Entry::kWaits;
}

bool Turnstile::next(Turn& out) {
  std::lock_guard lock(mutex_);
  if (waiting_ == 0 || inside_ == most_) return false;
  auto* gate = turns_.front();
  turns_.pop_front();
  out = {gate, gate->first()};
  if (gate->size() > 0) turns_.push_back(gate);
  ++inside_, --waiting_;
  return true;
}

void Turnstile::leave(size_t calls) {
  std::lock_guard lock(mutex_);
  base::check(inside_ >= calls, "who leaves has been inside");
  inside_ -= uint32_t(calls);
}

// The turnstiles through which this thread has still to let Calls in. An engine that answers inside put() would
// otherwise be stepped while it is being stepped, and nest as deep as the line is long: only the outermost does it.
class Gated::Porter {
 public:
  Porter() : outermost_(!std::exchange(desk().busy, true)) {}
  ~Porter() {
    if (!outermost_) return;
    auto& doors = desk().doors;
    for (size_t i = 0; i < doors.size(); ++i) {
      auto door = doors[i];
      for (Turnstile::Turn turn; door->next(turn);) turn.gate->start(turn.call);
    }
    doors.clear();
    desk().busy = false;
  }
  Porter(const Porter&) = delete;
  Porter& operator=(const Porter&) = delete;

  static void left(std::shared_ptr<Turnstile> door, size_t calls) {
    door->leave(calls);
    desk().doors.push_back(std::move(door));
  }

 private:
  struct Desk {
    bool busy = false;
    std::vector<std::shared_ptr<Turnstile>> doors;
  };
  static Desk& desk() {
    thread_local Desk desk;
    return desk;
  }
  const bool outermost_;
};

void Gated::put(msg::Call* call) {
  Guest guest{call->home, alarm_->now(), true};
  base::Time leaves = leaves_at(*call);  // once it waits it may be anybody's
  msg::Call* pushed_out = nullptr;
  switch (turnstile_->enter(*this, call, pushed_out)) {
    case Turnstile::Entry::kInside: return let_in(call, guest);
    case Turnstile::Entry::kFull: return refuse_here(call, too_many());
    case Turnstile::Entry::kGone: return refuse_here(call, client_left());
    case Turnstile::Entry::kWaits:
      (void)base::attempt("a turnstile", [&] { ring_at(leaves); });
      if (pushed_out) refuse(pushed_out, too_many());
      joining_.fetch_sub(1, std::memory_order_release);  // this may be gone afterwards
      return;
  }
}

// What is thrown is the caller's, who has the Call then; its place is free again.
void Gated::let_in(msg::Call* call, const Guest& guest) {
  Porter porter;
  try {
    {
      std::lock_guard lock(mutex_);
      guests_.emplace(call, guest);
    }
    call->home = this;
    inner_->put(call);  // this may be gone afterwards
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      guests_.erase(call);
    }
    call->home = guest.home;
    Porter::left(turnstile_, 1);
    throw;
  }
}

void Gated::start(msg::Call* call) {
  if (bool left = cancelled(*call); left || late(*call)) {
    auto turnstile = turnstile_;
    refuse(call, left ? client_left() : too_long());
    return Porter::left(std::move(turnstile), 1);
  }
  base::Time now = alarm_->now();
  auto waited = std::max<int64_t>((now - call->times.queued).count(), 0);
  stats_.queue.add(uint64_t(waited), 0);  // the lane counts it once, with what it waits there
  auto status = base::attempt("a turnstile", [&] { let_in(call, {call->home, call->times.queued, false}); });
  if (!status.ok()) refuse(call, std::move(status));
}

base::Time Gated::leaves_at(const msg::Call& call) const {
  const auto& policy = msg::queue_policy(spec_, msg::level_of(spec_, call.priority));
  auto longest = policy.timeout_of(call.queue_timeout);
  if (policy.timeout_action == msg::QueuePolicy::TimeoutAction::kDelay) return base::kNever;
  if (longest.count() <= 0 || longest >= base::kNever - call.times.queued) return base::kNever;
  return call.times.queued + longest;
}

Status Gated::too_long() const {
  return base::try_again(Code::kUnavailable, "the request waited longer than its queue timeout for model '" +
                                                 spec_.name + "'; try again later");
}

Status Gated::too_many() const {
  return base::try_again(Code::kResourceExhausted, "too many requests wait for model '" + spec_.name + "' (limit " +
                                                       std::to_string(spec_.batching.max_queue) + "); try again later");
}

void Gated::ring_at(base::Time when) {
  std::lock_guard lock(mutex_);
  if (when >= rings_at_) return;
  if (alarm_->set(*this, when)) rings_at_ = when;
}

void Gated::refuse(msg::Call* call, Status status) {
  call->times.finished = alarm_->now();
  auto waited = std::max<int64_t>((call->times.finished - call->times.queued).count(), 0);
  stats_.add_failure(status.code, uint64_t(waited));
  std::vector<msg::Mail> one;
  until_done("a turnstile", [&] {
    one.reserve(1);
    if (one.empty()) one.push_back({call, {msg::Failed{std::move(status)}}});
    call->home->post(one);
  });
}

void Gated::refuse_here(msg::Call* call, Status status) {
  stats_.add_failure(status.code, 0);
  call->home->post_here({call, {msg::Failed{std::move(status)}}});
}

// Those of this gate that wait and are to go.
std::vector<msg::Call*> Gated::take_out(bool (Gated::*goes)(const msg::Call&) const) {
  std::vector<msg::Call*> taken;
  std::lock_guard lock(turnstile_->mutex_);
  for (auto slot = order_.first(); slot != FairQueue::kNone;) {
    auto here = std::exchange(slot, order_.after(slot));
    if (!(this->*goes)(*calls_[here])) continue;
    taken.push_back(calls_[here]);
    order_.leave(here);
  }
  if (taken.empty()) return taken;
  turnstile_->waiting_ -= taken.size();
  if (size() == 0) std::erase(turnstile_->turns_, this);
  waits(-int64_t(taken.size()));
  return taken;
}

void Gated::poke() {
  auto taken = take_out(&Gated::cancelled);
  inner_->poke();
  for (auto* call : taken) refuse(call, client_left());
}

// On the alarm's thread.
void Gated::ring() {
  {
    std::lock_guard lock(mutex_);
    rings_at_ = base::kNever;
  }
  auto taken = take_out(&Gated::late);
  base::Time next = base::kNever;
  {
    std::lock_guard lock(turnstile_->mutex_);
    for (auto slot = order_.first(); slot != FairQueue::kNone; slot = order_.after(slot))
      next = std::min(next, leaves_at(*calls_[slot]));
  }
  ring_at(next);
  for (auto* call : taken) refuse(call, too_long());
}

// The guest's own home, which it has again after its last Event.
Gated::Guest Gated::farewell(msg::Mail& mail) {
  std::lock_guard lock(mutex_);
  auto at = guests_.find(mail.call);
  base::check(at != guests_.end(), "Events name a Call that is inside");
  Guest guest = at->second;
  if (!mail.event.last()) return guest;
  guests_.erase(at);
  mail.call->home = guest.home;
  mail.call->times.queued = guest.queued;
  return guest;
}

// Once the last Events are posted this may be gone; the turnstile is not.
void Gated::post(std::vector<msg::Mail>& burst) {
  std::vector<std::pair<msg::Home*, std::vector<msg::Mail>>> homes;
  size_t left = 0;
  for (auto& mail : burst) {
    left += mail.event.last();
    msg::Home* home = farewell(mail).home;
    auto at = std::find_if(homes.begin(), homes.end(), [&](const auto& h) { return h.first == home; });
    if (at == homes.end()) at = homes.emplace(homes.end(), home, std::vector<msg::Mail>{});
    at->second.push_back(std::move(mail));
  }
  burst.clear();
  auto turnstile = turnstile_;
  Porter porter;
  for (auto& [home, mails] : homes) home->post(mails);
  if (left > 0) Porter::left(std::move(turnstile), left);
}

void Gated::post_here(msg::Mail&& mail) {
  Porter porter;
  auto turnstile = turnstile_;
  bool last = mail.event.last();
  Guest guest = farewell(mail);
  if (guest.at_home) {
    guest.home->post_here(std::move(mail));
  } else {
    std::vector<msg::Mail> one;
    one.push_back(std::move(mail));
    guest.home->post(one);
  }
  if (last) Porter::left(std::move(turnstile), 1);
}

std::unique_ptr<msg::Inbox> behind(std::shared_ptr<Turnstile> turnstile, std::unique_ptr<msg::Inbox> inner,
                                   const msg::ModelSpec& spec, bus::ModelStats& stats, std::shared_ptr<Alarm> alarm) {
  return std::make_unique<Gated>(std::move(turnstile), std::move(inner), spec, stats, std::move(alarm));
}

}  // namespace weir::sched
