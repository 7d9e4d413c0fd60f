#include "sched/lane.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "sched/batcher.h"
#include "sched/fit.h"
#include "sched/runner.h"

namespace weir::sched {
namespace {

using base::Time;

// One thread per engine; one queue for all. A lane that has finished looks at the queue again before it sleeps, and
// put() makes a system call only when some lane sleeps that has to wake for it.
class Lanes final : public msg::Inbox {
 public:
  Lanes(std::vector<std::unique_ptr<Engine>> engines, const msg::ModelSpec& spec, bus::ModelStats& stats,
        base::SlabSource& slabs)
      : engines_(std::move(engines)), spec_(spec), stats_(stats), slabs_(slabs), batcher_(spec) {
    base::check(!engines_.empty(), "a model has an engine");
    for (auto& engine : engines_) threads_.emplace_back([this, &engine] { run(*engine); });
  }

  ~Lanes() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      batcher_.hurry();
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  void put(msg::Call* call) override;
  void poke() override;

 private:
  void run(Engine& engine);
  bool take(std::vector<msg::Call*>& batch, std::vector<Dropped>& dropped);
  void park(std::unique_lock<std::mutex>& lock, Time until);
  bool rouse(Time now);
  void answer_dropped(Runner& runner, std::vector<Dropped>& dropped);

  std::vector<std::unique_ptr<Engine>> engines_;
  const msg::ModelSpec& spec_;
  bus::ModelStats& stats_;
  base::SlabSource& slabs_;

  std::mutex mutex_;
  std::condition_variable wake_;
  Batcher batcher_;               // this and what follows: under mutex_
  bool rousing_ = false;          // a sleeping lane has been notified and is not back yet
  uint32_t parked_ = 0;           // lanes asleep
  Time watching_ = base::kNever;  // when the first of them wakes by itself
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

void refuse_here(msg::Call* call, base::Status status, bus::ModelStats& stats) {
  call->times.finished = lane_now();
  auto took = std::max<int64_t>((call->times.finished - call->times.queued).count(), 0);
  stats.add_failure(status.code, uint64_t(took));
  call->home->post_here({call, {msg::Failed{std::move(status)}}});
}

void Lanes::put(msg::Call* call) {
  Time now = lane_now();
  call->times.queued = now;
  if (auto status = fits(*call, spec_); !status.ok()) return refuse_here(call, std::move(status), stats_);
  std::vector<Dropped> dropped;
  base::Status status;
  bool wake;
  {
    std::lock_guard lock(mutex_);
    status = batcher_.add(call, now, dropped);
    stats_.pending.store(int64_t(batcher_.size()), std::memory_order_relaxed);
    wake = rouse(now);
  }
  if (wake) wake_.notify_one();
  if (!status.ok()) refuse_here(call, std::move(status), stats_);
  if (dropped.empty()) return;
  Runner::Room room;
  Runner runner(*engines_.front(), spec_, stats_, slabs_, room);
  answer_dropped(runner, dropped);
  runner.post();
}

// A call has been cancelled or has credit: only a lane that sleeps while calls wait must look; the others will.
void Lanes::poke() {
  {
    std::lock_guard lock(mutex_);
    if (parked_ == 0 || rousing_ || batcher_.empty()) return;
    rousing_ = true;
  }
  wake_.notify_one();
}

// True, when the caller has to notify a sleeping lane: there is work before one wakes by itself. While one is on its
// way no other is called: it calls the next when it leaves work behind.
bool Lanes::rouse(Time now) {
  if (parked_ == 0 || rousing_ || batcher_.ready_at(now) >= watching_) return false;
  rousing_ = true;
  return true;
}

void Lanes::answer_dropped(Runner& runner, std::vector<Dropped>& dropped) {
  for (auto& [call, status] : dropped) runner.refuse(call, std::move(status));
  dropped.clear();
}

void Lanes::run(Engine& engine) {
  pthread_setname_np(pthread_self(), "lane");
  Runner::Room room;
  Runner runner(engine, spec_, stats_, slabs_, room);
  std::vector<msg::Call*> batch;
  std::vector<Dropped> dropped;
  while (take(batch, dropped)) {
    answer_dropped(runner, dropped);
    runner.run(batch);
    runner.post();
  }
}

// The next batch, or calls that leave the queue. False when there is nothing more to do, ever.
bool Lanes::take(std::vector<msg::Call*>& batch, std::vector<Dropped>& dropped) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Time now = lane_now();
    batcher_.next(now, batch, dropped);
    if (!batch.empty() || !dropped.empty()) {
      stats_.pending.store(int64_t(batcher_.size()), std::memory_order_relaxed);
      bool more = rouse(now);
      lock.unlock();
      if (more) wake_.notify_one();
      return true;
    }
    if (stopping_ && batcher_.empty()) return false;
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
                                       bus::ModelStats& stats, base::SlabSource& slabs) {
  return std::make_unique<Lanes>(std::move(engines), spec, stats, slabs);
}

}  // namespace weir::sched
