// Work that other threads post to a shard, where the test's thread is the shard's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace weir::support {

class PostedWork {
 public:
  // Any thread.
  void post(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
    wake_.notify_one();
  }
  // Does the next piece that is posted. False: none comes.
  bool do_next() {
    std::unique_lock lock(mutex_);
    if (!wake_.wait_for(lock, std::chrono::seconds(20), [this] { return !posted_.empty(); })) return false;
    auto work = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    work();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> posted_;
};

}  // namespace weir::support
