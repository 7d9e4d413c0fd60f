#include "sched/alarm.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "sched/runner.h"

namespace weir::sched {

using base::Time;

AlarmClock::~AlarmClock() {
  {
    std::lock_guard lock(mutex_);
    base::check(due_.empty(), "bells are removed before their alarm");
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Time AlarmClock::now() const { return lane_now(); }

bool AlarmClock::set(Bell& bell, Time when) {
  bool wake, rings;
  {
    std::lock_guard lock(mutex_);
    Time& due = due_.try_emplace(&bell, when).first->second;
    due = thread_.joinable() ? when : std::min(due, when);  // what could not be set before is still to ring
    wake = when < asleep_until_;
    if (wake) asleep_until_ = Time::min();
    rings = start();
  }
  if (wake) changed_.notify_all();
  return rings;
}

// With the mutex. Without a thread nothing rings: those who wait are looked at when their lane is free, and the next
// bell that is set tries again.
bool AlarmClock::start() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void AlarmClock::remove(Bell& bell) {
  std::unique_lock lock(mutex_);
  due_.erase(&bell);
  changed_.wait(lock, [&] { return ringing_ != &bell; });
  due_.erase(&bell);  // it may have been set again while it rang
}

void AlarmClock::run() {
  pthread_setname_np(pthread_self(), "alarm");
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
    ringing_ = first->first;
    due_.erase(first);
    lock.unlock();
    ringing_->ring();
    lock.lock();
    ringing_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace weir::sched
