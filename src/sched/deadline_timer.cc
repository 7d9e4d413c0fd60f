#include "sched/deadline_timer.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/clock.h"

namespace weir::sched {

using base::Time;

TimerThread::~TimerThread() {
  {
    std::lock_guard lock(mutex_);
    base::check(due_.empty(), "listeners are removed before their deadline timer");
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Time TimerThread::now() const { return base::steady_now(); }

bool TimerThread::set(Listener& listener, Time when) {
  bool wake, started;
  {
    std::lock_guard lock(mutex_);
    Time& due = due_.try_emplace(&listener, when).first->second;
    due = thread_.joinable() ? when : std::min(due, when);  // what could not be set before is still due
    wake = when < asleep_until_;
    if (wake) asleep_until_ = Time::min();
    started = start();
  }
  if (wake) changed_.notify_all();
  return started;
}

// With the mutex. Without a thread no listener is called: calls that wait are checked when their lane is free, and the
// next listener that is set tries again.
bool TimerThread::start() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void TimerThread::remove(Listener& listener) {
  std::unique_lock lock(mutex_);
  due_.erase(&listener);
  changed_.wait(lock, [&] { return firing_ != &listener; });
  due_.erase(&listener);  // it may have been set again while it was called
}

void TimerThread::run() {
  pthread_setname_np(pthread_self(), "deadlines");
  std::unique_lock lock(mutex_);
  while (!ending_) {
    auto first = std::min_element(due_.begin(), due_.end(), [](auto& a, auto& b) { return a.second < b.second; });
    Time when = first == due_.end() ? base::kNever : first->second;
    if (when > now()) {
      asleep_until_ = when;
      if (when == base::kNever)
        changed_.wait(lock);
      else
        changed_.wait_until(lock, when);
      asleep_until_ = Time::min();
      continue;
    }
    firing_ = first->first;
    due_.erase(first);
    lock.unlock();
    firing_->on_deadline();
    lock.lock();
    firing_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace weir::sched
