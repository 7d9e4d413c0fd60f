// Workers: a few threads for what would take too long where it came up; and the Inbox through which the shards' offload
// tasks (bus/offload_task.h) reach them.
//
// Clients share them fairly (sched/fair_share.h, counted in bytes): one client's work is done in the order in which it
// came, and the second long text of one stands behind the first ones of others.
//
// Threads start when there is work for them; where not even one is to be had, whoever posts does the work. Any thread
// may post.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bus/offload_task.h"
#include "sched/fair_share.h"

namespace weir::sched {

class Workers {
 public:
  // `nice`: how much they give way to threads of others, as in setpriority(2).
  explicit Workers(unsigned threads, int nice = 0) : most_(threads > 0 ? threads : 1), nice_(nice) {}
  ~Workers();  // runs what was posted, then joins
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // On whose behalf, and how much there is to do.
  struct Share {
    uint64_t client = 0;
    uint64_t cost = 1;
  };
  // `work` throws nothing.
  void post(std::function<void()> work, Share share);
  void post(std::function<void()> work) { post(std::move(work), Share{}); }

 private:
  using Place = std::pair<uint64_t, uint64_t>;  // its tag, and the order in which it came
  void add_thread();
  std::function<void()> take();
  void run();

  const unsigned most_;
  const int nice_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  FairShare shares_;
  struct Waiting {
    std::function<void()> work;
    uint64_t cost;
  };
  std::map<Place, Waiting> queue_;
  uint64_t posted_ = 0;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool stopping_ = false;
};

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

struct WorkerPoolPolicy {
  unsigned threads = 1;
  size_t max_bytes = size_t(64) << 20;  // of text that waits (WaitingBytes); more is refused with RESOURCE_EXHAUSTED
};

// Takes ErrandCalls only; msg::Call::tenant is whose they are. A cancelled one that waits is answered at once, one that
// runs as soon as it looks (OffloadTask::cancelled()). All of them have come back before it goes.
std::unique_ptr<msg::Inbox> make_worker_pool(const WorkerPoolPolicy& policy);

}  // namespace weir::sched
