// TokenKeys: the keys that tokens are signed with, of now, for all shards; and the place where a shard says that one is
// missing. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "auth/jwks.h"

namespace weir::auth {

class TokenKeys {
 public:
  // From now on these are the keys.
  void use(std::shared_ptr<const KeySet> keys) {
    std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
    version_.fetch_add(1, std::memory_order_release);
  }
  // Counts the calls of use(): a shard takes keys() again when it has changed.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Null before the first use().
  std::shared_ptr<const KeySet> keys() const {
    std::lock_guard lock(mutex_);
    return keys_;
  }

  // `ask` makes somebody look for new keys: at once, or on another thread. Set before the shards start; without it keys
  // are never missing.
  void on_missing(std::function<void()> ask) { ask_ = std::move(ask); }
  // A token names a key that is not there. Asks once, until looked() is called.
  void missing() {
    if (ask_ && !asked_.exchange(true, std::memory_order_relaxed)) ask_();
  }
  void looked() { asked_.store(false, std::memory_order_relaxed); }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const KeySet> keys_;  // under mutex_
  std::atomic<uint64_t> version_{0};
  std::function<void()> ask_;
  std::atomic<bool> asked_{false};
};

}  // namespace weir::auth
