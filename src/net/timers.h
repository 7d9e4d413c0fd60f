// Timers: what a shard has to do later, by time. One thread, no clock of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "base/env.h"

namespace weir::net {

class Timers {
 public:
  base::TimerId at(base::Time when, std::function<void()> fire);
  void cancel(base::TimerId id);  // of a timer that has fired: nothing
  // Fires all that is due, in order of time and then of creation, until `long_enough` says so behind one. What is added
  // meanwhile fires at the next call, even if it is due already: a timer that re-arms itself cannot hold the loop.
  void fire_due(base::Time now, const std::function<bool()>& long_enough = {});
  // When the next one is due; kNever when none is armed.
  base::Time next() const { return heap_.empty() ? base::kNever : heap_.front().when; }
  size_t armed() const { return fires_.size(); }

 private:
  struct HeapItem {
    base::Time when;
    uint64_t serial;
    // For std::push_heap, whose front is the greatest: the earliest one comes out first.
    friend bool operator<(const HeapItem& a, const HeapItem& b) {
      return a.when != b.when ? a.when > b.when : a.serial > b.serial;
    }
  };
  void pop();
  void drop_cancelled();

  std::vector<HeapItem> heap_;  // its front is live, others may have been cancelled
  std::unordered_map<uint64_t, std::function<void()>> fires_;
  uint64_t last_ = 0;
};

}  // namespace weir::net
