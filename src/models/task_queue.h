// TaskQueue: the door to the repository's thread. Outlives the Repository in callbacks that others keep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"

namespace weir::models {

inline base::Status is_ending() { return base::failure(base::Code::kUnavailable, "the server is shutting down"); }

struct TaskQueue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;            // under mutex, as all of this
  using Named = std::pair<std::string, std::string>;  // root and model, by Repository::refresh()
  std::deque<Named> refreshed;                        // each once
  std::set<Named> waiting;                            // the same
  uint64_t settled = 0;                               // the youngest Catalog that every shard has
  bool stopping = false;
  bool poked = false;  // the thread has to look at what is under the repository's lock

  // Any thread. The repository ends: what waits is refused, and nobody waits for a model that is being loaded.
  bool ends() {
    std::lock_guard lock(mutex);
    return stopping;
  }
  void end() {
    std::lock_guard lock(mutex);
    stopping = poked = true;
    changed.notify_one();
  }
  // Any thread. False when the repository ends: the task will not run.
  bool post(std::function<void()> task) {
    std::lock_guard lock(mutex);
    if (stopping) return false;
    tasks.push_back(std::move(task));
    changed.notify_one();
    return true;
  }
  // Any thread, also when the repository ends.
  void poke() {
    std::lock_guard lock(mutex);
    poked = true;
    changed.notify_one();
  }
};

}  // namespace weir::models
