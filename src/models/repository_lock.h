// RepositoryLock: held by the thread that uses the parts of a Repository: its own one, and each on which a model is
// loaded. Those give it away while an engine is made, so that all else goes on meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace weir::models {

class RepositoryLock {
 public:
  RepositoryLock() = default;
  RepositoryLock(const RepositoryLock&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  // By the thread that holds it, which gives it away meanwhile: until notify_all() or a while before.
  void wait() {
    std::unique_lock held(mutex_, std::adopt_lock);
    changed_.wait(held);
    held.release();
  }
  void wait_until(std::chrono::steady_clock::time_point until) {
    std::unique_lock held(mutex_, std::adopt_lock);
    changed_.wait_until(held, until);
    held.release();
  }
  void notify_all() { changed_.notify_all(); }

  // Gives it away while this lives, on the thread that holds it.
  class Unlocked {
   public:
    explicit Unlocked(RepositoryLock& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;

   private:
    RepositoryLock& lock_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace weir::models
