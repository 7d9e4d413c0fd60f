#include "net/timers.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"

namespace weir::net {

base::TimerId Timers::at(base::Time when, std::function<void()> fire) {
  uint64_t serial = ++last_;
  fires_.emplace(serial, std::move(fire));
  heap_.push_back({when, serial});
  std::push_heap(heap_.begin(), heap_.end());
  return base::TimerId(serial);
}

void Timers::cancel(base::TimerId id) {
  if (id == base::TimerId::kNone || fires_.erase(uint64_t(id)) == 0) return;
  // Timers that are mostly cancelled (deadlines) must not pile up until they would have been due.
  if (heap_.size() > 64 && heap_.size() > 4 * fires_.size()) {
    std::erase_if(heap_, [this](const HeapItem& e) { return !fires_.contains(e.serial); });
    std::make_heap(heap_.begin(), heap_.end());
  }
  drop_cancelled();
}

void Timers::fire_due(base::Time now, const std::function<bool()>& long_enough) {
  uint64_t newest = last_;
  std::vector<HeapItem> later;
  for (bool more = true; more && !heap_.empty() && heap_.front().when <= now;) {
    HeapItem entry = heap_.front();
    pop();
    if (entry.serial > newest) {
      later.push_back(entry);
      continue;
    }
    auto node = fires_.extract(entry.serial);
    // Exceptions that no request's own guard has caught end here: one timer's work is lost, and the shard goes on.
    if (node) (void)base::attempt("a timer", node.mapped());
    more = !node || !long_enough || !long_enough();
  }
  for (const auto& entry : later) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end());
  }
  drop_cancelled();
}

void Timers::pop() {
  std::pop_heap(heap_.begin(), heap_.end());
  heap_.pop_back();
}

void Timers::drop_cancelled() {
  while (!heap_.empty() && !fires_.contains(heap_.front().serial)) pop();
}

}  // namespace weir::net
