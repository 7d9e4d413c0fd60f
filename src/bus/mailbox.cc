#include "bus/mailbox.h"

#include <iterator>
#include <thread>

#include "base/attempt.h"

namespace weir::bus {

void Mailbox::post(std::vector<msg::Mail>& burst) {
  if (burst.empty()) return;
  bool was_empty;
  {
    std::lock_guard lock(mutex_);
    was_empty = queue_.empty();
    if (was_empty)
      queue_.swap(burst);
    else
      queue_.insert(queue_.end(), std::move_iterator(burst.begin()), std::move_iterator(burst.end()));
    filled_.store(true, std::memory_order_relaxed);
    if (was_empty) waking_.fetch_add(1, std::memory_order_relaxed);
  }
  burst.clear();
  if (!was_empty) return;
  wake_();
  waking_.fetch_sub(1, std::memory_order_release);  // after this the box may be gone
}

// Not under the lock: the shard that wakes would run into it at once.
Mailbox::~Mailbox() {
  while (waking_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
}

// A post that filled_ does not show yet is not lost: its wake_() comes after the store, and brings another turn.
bool Mailbox::drain(std::vector<msg::Mail>& out) {
  out.clear();
  if (filled_.load(std::memory_order_relaxed)) {
    std::lock_guard lock(mutex_);
    out.swap(queue_);
    filled_.store(false, std::memory_order_relaxed);
  }
  if (out.empty()) {
    out.swap(here_);
  } else if (base::attempt("a mailbox", [&] { out.reserve(out.size() + here_.size()); }).ok()) {  // else the next time
    out.insert(out.end(), std::move_iterator(here_.begin()), std::move_iterator(here_.end()));
    here_.clear();
  }
  return !out.empty();
}

void Mailbox::wake_again() {
  if (!here_.empty() || filled_.load(std::memory_order_relaxed)) wake_();
}

}  // namespace weir::bus
