// The worker pool: the Inbox through which the shards' offload tasks (bus/offload_task.h) reach a few threads
// (base/workers.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "bus/offload_task.h"

namespace weir::sched {

// Bytes that wait: of each tenant, and in all. Whoever uses it holds a lock.
class WaitingBytes {
 public:
  explicit WaitingBytes(size_t most) : most_(most) {}
  // False, and nothing changes, where they are too many: a tenant has a quarter, or one piece of work of any size.
  bool add(uint64_t tenant, size_t bytes);
  void remove(uint64_t tenant, size_t bytes);

 private:
  const size_t most_;
  size_t all_ = 0;
  std::unordered_map<uint64_t, size_t> tenants_;  // that have some
};

// Bytes of a text that is read in some ten milliseconds.
inline constexpr uint64_t kQuickWork = 64 << 10;

struct WorkerPoolPolicy {
  unsigned threads = 1;  // for long tasks, as many for short ones, and as many for those with base::ExtraWork
  // Bytes of text that may wait (WaitingBytes); more is refused with RESOURCE_EXHAUSTED. OffloadCall::granted is
  // neither counted nor refused: the model has done its work, and the answer has its own room.
  size_t max_bytes = size_t(64) << 20;
};

// Takes OffloadCalls only; msg::Call::tenant is whose they are. Tenants share the threads by the bytes of their tasks.
// A task that runs is not interrupted, so that threads are shared by tasks that are alike: those of kQuickWork bytes at
// most do not wait for a text of megabytes, and none of them for a form. Forms, tasks with base::ExtraWork, may take
// seconds each; tenants share their threads by both, and these give way to all others of the machine.
// A cancelled task that waits is answered at once, one that runs as soon as it checks
// OffloadTask::cancelled(). Where no thread can be started, short tasks and granted ones are done by the shard that
// posts them; the others are answered UNAVAILABLE. All of them have come back before it is destroyed.
std::unique_ptr<msg::Inbox> make_worker_pool(const WorkerPoolPolicy& policy);

}  // namespace weir::sched
