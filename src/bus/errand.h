// Errand: long work that a dialect has to do for a request before a model can be asked, or instead of asking one: a
// long prompt becomes tokens. Done on the shard it would hold up all of the shard's connections; so a dialect does what
// is short at once, and hands what is long to its Bus (Bus::send), whose workers run it and post it back.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "msg/call.h"

namespace weir::bus {

// Text of so many bytes is worked on where it came in: a hop to another thread and back is not worth it. About a
// millisecond at worst.
inline constexpr size_t kShortText = size_t(8) << 10;

class Errand {
 public:
  virtual ~Errand() = default;
  // Once, on a worker's thread; on the home shard where a Bus has no workers. Touches what it owns and what never
  // changes, and nothing else: the client, and with it all of the dialect's objects, may go at any time.
  virtual void run() = 0;
  // Instead of a worker, on the shard, what is short. False, and nothing is done, where it turns out to take more than
  // a few milliseconds: then a worker has to run() it.
  virtual bool run_briefly() {
    run();
    return true;
  }

  // For run(), as often as every few thousand steps: true when nobody waits for it any more, and it may end undone.
  // Set by the workers; borrowed.
  void watch(const std::atomic<bool>& cancelled) { cancelled_ = &cancelled; }
  const std::atomic<bool>* cancelled() const { return cancelled_; }

 private:
  const std::atomic<bool>* cancelled_ = nullptr;
};

// How an errand reaches the workers, and comes back: as a Call of its own. They answer with Done when it has run, and
// with Failed when it was cancelled before or cannot be taken.
struct ErrandCall : msg::Call {
  std::unique_ptr<Errand> errand;
  size_t bytes = 0;  // that wait with it
};

}  // namespace weir::bus
