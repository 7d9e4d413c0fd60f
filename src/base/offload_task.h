// OffloadTask: a piece of work that would hold up its shard, and with it all of the shard's connections, if it were
// done there. Workers do it (bus/offload_task.h) and hand it back.
#pragma once

#include <atomic>

namespace weir::base {

class OffloadTask {
 public:
  virtual ~OffloadTask() = default;
  // Once for each time that it is sent, on a worker's thread; on the home shard where there are no workers. Touches
  // what it owns and what never changes, and nothing else: the client, and with it all of the shard's objects for it,
  // may go at any time.
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

}  // namespace weir::base
