// A DeadlineTimer that the test drives: time passes when the test says so, and listeners are called on its thread.
#pragma once

#include <map>
#include <mutex>

#include "sched/deadline_timer.h"

namespace weir::sched {

class FakeDeadlineTimer final : public DeadlineTimer {
 public:
  base::Time now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  bool set(Listener& listener, base::Time when) override {
    std::lock_guard lock(mutex_);
    ++sets_;
    if (broken_) return false;
    due_[&listener] = when;
    return true;
  }
  // No listener can be set until it is mended.
  void shatter() {
    std::lock_guard lock(mutex_);
    broken_ = true;
  }
  void mend() {
    std::lock_guard lock(mutex_);
    broken_ = false;
  }
  void remove(Listener& listener) override {
    std::lock_guard lock(mutex_);
    due_.erase(&listener);
  }
  void advance(base::Duration by) {
    std::unique_lock lock(mutex_);
    now_ += by;
    for (auto at = due_.begin(); at != due_.end();) {
      if (at->second > now_) {
        ++at;
        continue;
      }
      auto* listener = at->first;
      due_.erase(at);
      lock.unlock();
      listener->on_deadline();
      lock.lock();
      at = due_.begin();
    }
  }
  size_t due() const {
    std::lock_guard lock(mutex_);
    return due_.size();
  }
  int sets() const {
    std::lock_guard lock(mutex_);
    return sets_;
  }

 private:
  mutable std::mutex mutex_;
  base::Time now_ = base::Time(std::chrono::seconds(1000));
  std::map<Listener*, base::Time> due_;
  int sets_ = 0;
  bool broken_ = false;
};

}  // namespace weir::sched
