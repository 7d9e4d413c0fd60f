// Workers: a few threads for work that would take too long on the thread where it comes up.
//
// Clients share them fairly (base/fair_share.h, counted in bytes): the work of one client is done in the order in which
// it was posted, and its second long text waits behind the first ones of other clients.
//
// A thread starts when there is work for it. If not even one can be started, post() does the work itself. Any thread
// may post.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fair_share.h"

namespace weir::base {

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

}  // namespace weir::base
