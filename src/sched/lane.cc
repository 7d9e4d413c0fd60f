#include "sched/lane.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/until_done.h"
#include "bus/load_notes.h"
#include "bus/memory_use.h"
#include "device/await.h"
#include "sched/batcher.h"
#include "sched/fit.h"
#include "sched/in_flight_batches.h"
#include "sched/response_order.h"
#include "sched/runner.h"
#include "sched/turn_wakes.h"

namespace weir::sched {
namespace {

using base::Time;

// A call that is cancelled while all engines work leaves so much later, unless a lane notices before. One timer then
// serves all that were cancelled meanwhile.
constexpr base::Duration kSoon = std::chrono::milliseconds(1);

// A lane that sleeps is woken at the end of the turn that has work for it, with the first call that fills a batch or
// comes from another thread, or with the first that comes so much later. A call that nothing follows waits for the end
// of the turn.
constexpr base::Duration kHeldBack = std::chrono::microseconds(200);

// The lanes of a model: a thread per engine, and one queue for all of them. A lane reads the queue again before it
// sleeps, so put() makes a system call only when a sleeping lane has to be woken.
class Lanes final : public msg::Inbox,
                    public bus::TellsMemory,
                    public bus::HasLoadNotes,
                    private DeadlineTimer::Listener,
                    private TurnWakes::Sleeper {
 public:
  Lanes(std::vector<std::unique_ptr<Engine>> engines, const msg::ModelSpec& spec, bus::ModelStats& stats,
        base::SlabSource& slabs, std::shared_ptr<DeadlineTimer> deadline_timer, uint32_t first_instance)
      : engines_(std::move(engines)),
        spec_(spec),
        stats_(stats),
        slabs_(slabs),
        deadline_timer_(deadline_timer ? std::move(deadline_timer) : std::make_shared<TimerThread>()),
        shares_(shares_batches(spec)),
        batcher_(spec) {
    base::check(!engines_.empty(), "a model has an engine");
    bool overtake = engines_.size() > 1 || engines_.front()->depth() > 1;
    if (overtake && spec.batching.preserve_ordering) order_ = std::make_unique<ResponseOrder>();
    for (auto& engine : engines_) stats.places.emplace_back(engine->place());
    try {
      for (uint32_t i = 0; i < engines_.size(); ++i)
        threads_.emplace_back([this, i, number = first_instance + i] { run(*engines_[i], number); });
    } catch (...) {  // no more threads: those that run must not outlive this
      join();
      throw;
    }
  }

  ~Lanes() override {
    join();
    if (auto* wakes = TurnWakes::of_this_thread(); wakes && wakes->forget(*this)) waking_.fetch_sub(1);
    deadline_timer_->remove(*this);
    while (waking_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  void join();
  void run(Engine& engine, uint32_t instance);
  void overlap(Engine& engine, uint32_t instance);
  enum class Wait : uint8_t { kForWork, kNot };
  // The next work of a lane: calls that run as one batch, and calls that leave the queue without having run.
  struct Work {
    std::vector<msg::Call*> batch;
    uint64_t number = 0;  // of the batch, where answers have an order
    std::vector<Dropped> dropped;
  };
  bool take(const Engine& engine, Work& work, Wait wait = Wait::kForWork);
  bool try_take(const Engine& engine, Work& work, Wait wait);
  bool leave_to_others(std::unique_lock<std::mutex>& lock);
  void park(std::unique_lock<std::mutex>& lock, Time until);
  bool needs_wake(const msg::Call& call, Time now);
  bool waits_for_turn(Time now);
  bool stops_waiting(Time now);
  void wake() override;
  bool rouse(Time now);
  void on_deadline() override;
  void set_timer(Time when);
  void watch();
  void answer_dropped(std::vector<Dropped>& dropped);
  void count_pending();

  std::vector<std::unique_ptr<Engine>> engines_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  base::SlabSource& slabs_;
  const std::shared_ptr<DeadlineTimer> deadline_timer_;
  const bool shares_;                     // calls run together
  std::unique_ptr<ResponseOrder> order_;  // null: answers leave as they come

  std::mutex mutex_;
  std::condition_variable wake_;
  // How many threads are in put() between unlocking and notifying, or are to notify at the end of their turn. The call
  // that one of them has put may be answered, and this be destroyed, before it notifies; the destructor waits for them.
  // Raised under mutex_.
  std::atomic<uint32_t> waking_{0};
  Batcher batcher_;               // this and what follows: under mutex_
  int64_t pending_ = 0;           // this queue's part of stats_.pending
  bool rousing_ = false;          // a sleeping lane has been notified and has not woken yet
  bool owed_ = false;             // that notification waits for the end of a shard's turn
  Time held_until_{};             // but not longer
  TurnWakes* listed_ = nullptr;   // those of the shard that has this on its list, which counts in waking_
  uint32_t parked_ = 0;           // lanes asleep
  uint32_t gone_ = 0;             // lanes that have ended before the others, because their engines are lost
  Time watching_ = base::kNever;  // when the first of them wakes by itself
  Time timer_at_ = base::kNever;  // the time to which the deadline timer is set
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

// Ends the threads, after all calls that are queued have run.
void Lanes::join() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    batcher_.hurry();
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void refuse_here(msg::Call* call, base::Status status, bus::ModelStats& stats, Time now) {
  call->times.finished = now;
  auto took = std::max<int64_t>((call->times.finished - call->times.queued).count(), 0);
  stats.add_failure(status.code, uint64_t(took));
  call->home->post_here({call, {msg::Failed{std::move(status)}}});
}

void Lanes::put(msg::Call* call) {
  Time now = deadline_timer_->now();
  call->times.queued = now;
  if (auto status = rows_fit(*call, spec_); !status.ok()) return refuse_here(call, std::move(status), stats_, now);
  std::vector<Dropped> dropped;
  base::Status status;
  bool wake;
  {
    std::lock_guard lock(mutex_);
    status = batcher_.add(call, now, dropped);  // what it throws is the caller's: the call is not here then
    count_pending();
    wake = status.ok() && (needs_wake(*call, now) ? !waits_for_turn(now) : stops_waiting(now));
    if (wake) waking_.fetch_add(1, std::memory_order_relaxed);
  }
  if (wake) {
    wake_.notify_one();
    waking_.fetch_sub(1, std::memory_order_release);
  }
  if (!status.ok()) refuse_here(call, std::move(status), stats_, now);
  answer_dropped(dropped);
}

// Under the mutex, for a call that was queued. True: the caller has to notify a sleeping lane, which sleeps again if it
// finds nothing to do.
bool Lanes::needs_wake(const msg::Call& call, Time now) {
  bool wake = parked_ > 0;
  (void)base::attempt("a queue", [&] {
    // It was cancelled on its way here: poke() found an empty queue then, and a call that only leaves wakes no lane.
    if (call.cancelled.load(std::memory_order_acquire)) set_timer(now + kSoon);
    wake = rouse(now);
    watch();
  });
  return wake;
}

// Under the mutex, for a call for which a lane is to be notified. True: the shard that puts it does so at the end of
// its turn. Not where there are other lanes, which would have to wait for this one to notify them.
bool Lanes::waits_for_turn(Time now) {
  auto* wakes = TurnWakes::of_this_thread();
  if (!wakes || engines_.size() > 1 || !shares_ || batcher_.fills_batch()) return false;
  if (listed_ && listed_ != wakes) return false;
  if (!listed_ && !base::attempt("a queue", [&] { wakes->add(*this); }).ok()) return false;
  if (!std::exchange(listed_, wakes)) waking_.fetch_add(1, std::memory_order_relaxed);
  held_until_ = now + kHeldBack;
  return owed_ = true;
}

// Under the mutex: the notification that waits for the end of a turn is due.
bool Lanes::stops_waiting(Time now) {
  const bool due = owed_ && (batcher_.fills_batch() || now >= held_until_ || TurnWakes::of_this_thread() != listed_);
  if (due) owed_ = false;
  return due;
}

// At the end of that turn.
void Lanes::wake() {
  bool owed;
  {
    std::lock_guard lock(mutex_);
    owed = std::exchange(owed_, false), listed_ = nullptr;
  }
  if (owed) wake_.notify_one();
  waking_.fetch_sub(1, std::memory_order_release);
}

// A call has been cancelled. A lane that sleeps while calls wait is woken; where none sleeps, the deadline timer calls
// on_deadline().
void Lanes::poke() {
  {
    std::lock_guard lock(mutex_);
    if (rousing_ || batcher_.empty()) return;
    if (parked_ == 0) return set_timer(deadline_timer_->now() + kSoon);
    rousing_ = true;
  }
  wake_.notify_one();
}

// True: the caller has to notify a sleeping lane, because there is work before the first of them wakes by itself. While
// one is waking up no other is notified: it notifies the next one if it leaves work in the queue.
bool Lanes::rouse(Time now) {
  if (parked_ == 0 || rousing_ || batcher_.ready_at(now) >= watching_) return false;
  rousing_ = true;
  return true;
}

void Lanes::set_timer(Time when) {
  if (when >= timer_at_) return;
  if (deadline_timer_->set(*this, when)) timer_at_ = when;
}

// Sets the timer for calls that have to leave while all lanes work. A lane that sleeps wakes in time by itself.
void Lanes::watch() {
  if (parked_ == 0) set_timer(batcher_.leaves_at());
}

// On the deadline timer's thread.
void Lanes::on_deadline() {
  std::vector<Dropped> dropped;
  {
    std::lock_guard lock(mutex_);
    timer_at_ = base::kNever;
    batcher_.leave(deadline_timer_->now(), dropped);
    count_pending();
    watch();
  }
  answer_dropped(dropped);
}

// Under the mutex. Other lanes of the model count theirs there, too.
void Lanes::count_pending() {
  const auto now = int64_t(batcher_.size());
  stats_.pending.fetch_add(now - std::exchange(pending_, now), std::memory_order_relaxed);
}

void Lanes::answer_dropped(std::vector<Dropped>& dropped) {
  if (dropped.empty()) return;
  Runner::Room room;
  Runner runner(*engines_.front(), spec_, stats_, slabs_, room);
  for (auto& [call, status] : dropped) runner.refuse(call, std::move(status));
  runner.post();
  dropped.clear();
}

void Lanes::run(Engine& engine, uint32_t instance) {
  pthread_setname_np(pthread_self(), "lane");
  if (engine.depth() > 1) return overlap(engine, instance);
  Runner::Room room;
  room.instance = int32_t(instance);
  room.order = order_.get();
  Runner runner(engine, spec_, stats_, slabs_, room);
  Work work;
  while (take(engine, work)) {
    answer_dropped(work.dropped);
    if (work.batch.empty()) continue;
    room.number = work.number;
    runner.run(work.batch);
    runner.post_last();
  }
}

// The loop of an engine that runs beside this thread: a batch is prepared while others run. The lane does not sleep on
// the queue while a batch is in flight; it polls the engine, and reads the queue after each poll.
void Lanes::overlap(Engine& engine, uint32_t instance) {
  InFlightBatches in_flight(engine, instance, spec_, stats_, slabs_, order_.get());
  device::PollBackoff backoff;
  Work work;
  for (;;) {
    if (in_flight.land()) backoff.reset();
    bool some = in_flight.has_room() && take(engine, work, in_flight.empty() ? Wait::kForWork : Wait::kNot);
    if (!some && in_flight.empty()) return;
    answer_dropped(work.dropped);
    if (some && !work.batch.empty()) in_flight.launch(work.batch, work.number), backoff.reset();
    if (!in_flight.empty()) backoff.wait();
  }
}

// Waits for a batch, or for calls that leave the queue. False: the lane ends. With Wait::kNot it does not wait; false
// then means that there is nothing now, or that an idle lane will take it.
bool Lanes::take(const Engine& engine, Work& work, Wait wait) {
  bool some = false;
  base::until_done("a lane", [&] { some = try_take(engine, work, wait); });
  return some;
}

// Under the mutex, for a lane whose engine is lost. It passes on what it has been woken for. The last lane stays: its
// engine says why calls fail.
bool Lanes::leave_to_others(std::unique_lock<std::mutex>& lock) {
  if (gone_ + 1 == engines_.size()) return false;
  watch();
  const bool more = rouse(deadline_timer_->now());
  ++gone_;
  lock.unlock();
  if (more) wake_.notify_one();
  return true;
}

bool Lanes::try_take(const Engine& engine, Work& work, Wait wait) {
  std::unique_lock lock(mutex_);
  work.batch.clear();
  if (wait == Wait::kNot && parked_ > 0) return false;
  for (;;) {
    if (wait == Wait::kForWork && engine.health() == Engine::Health::kLost && leave_to_others(lock)) return false;
    Time now = deadline_timer_->now();
    batcher_.next(now, work.batch, work.dropped);
    if (order_ && !work.batch.empty()) work.number = order_->begin();
    if (!work.batch.empty() || !work.dropped.empty()) {
      count_pending();
      bool more = rouse(now);
      watch();
      lock.unlock();
      if (more) wake_.notify_one();
      return true;
    }
    if (wait == Wait::kNot || (stopping_ && batcher_.empty())) return false;
    park(lock, batcher_.ready_at(now));
  }
}

void Lanes::park(std::unique_lock<std::mutex>& lock, Time until) {
  ++parked_;
  if (until == base::kNever) {
    wake_.wait(lock);
  } else {
    watching_ = std::min(watching_, until);
    wake_.wait_until(lock, until);
    watching_ = base::kNever;  // a lane that still watches is at worst notified once too often
  }
  rousing_ = false;
  --parked_;
}

}  // namespace

std::unique_ptr<msg::Inbox> make_lanes(std::vector<std::unique_ptr<Engine>> engines, const msg::ModelSpec& spec,
                                       bus::ModelStats& stats, base::SlabSource& slabs,
                                       std::shared_ptr<DeadlineTimer> deadline_timer, uint32_t first_instance) {
  return std::make_unique<Lanes>(std::move(engines), spec, stats, slabs, std::move(deadline_timer), first_instance);
}

}  // namespace weir::sched
