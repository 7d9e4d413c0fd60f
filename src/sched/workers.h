// Workers: a few threads for what would take too long where it came up, in the order in which it came; and the Inbox
// through which the shards' errands (bus/errand.h) reach them.
//
// Threads start when there is work for them; where not even one is to be had, whoever posts does the work. Any thread
// may post.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bus/errand.h"

namespace weir::sched {

class Workers {
 public:
  // `nice`: how much they give way to threads of others, as in setpriority(2).
  explicit Workers(unsigned threads, int nice = 0) : most_(threads > 0 ? threads : 1), nice_(nice) {}
  ~Workers();  // runs what was posted, then joins
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `work` throws nothing.
  void post(std::function<void()> work);

 private:
  void add_thread();
  std::function<void()> take();
  void run();

  const unsigned most_;
  const int nice_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool stopping_ = false;
};

struct ErrandPolicy {
  unsigned threads = 1;
  size_t max_bytes = size_t(64) << 20;  // of text that waits; more is refused with RESOURCE_EXHAUSTED
};

// Takes ErrandCalls only. A cancelled one that waits is answered at once. All of them have come back before it goes.
std::unique_ptr<msg::Inbox> make_errands(const ErrandPolicy& policy);

}  // namespace weir::sched
