// A gate at which threads wait until the test lets them through.
#pragma once

#include <condition_variable>
#include <mutex>

namespace weir::support {

class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || tickets_ > 0; });
    if (!open_) --tickets_;
    --waiting_;
  }
  void let(int n) {
    std::lock_guard lock(mutex_);
    tickets_ += n;
    changed_.notify_all();
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void until_waiting(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= n; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0, tickets_ = 0;
  bool open_ = false;
};

}  // namespace weir::support
