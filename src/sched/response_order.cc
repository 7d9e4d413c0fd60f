#include "sched/response_order.h"

#include <utility>

#include "base/until_done.h"

namespace weir::sched {

ResponseOrder::Held& ResponseOrder::of(uint64_t batch) {
  if (held_.size() <= batch - first_) held_.resize(batch - first_ + 1);
  return held_[batch - first_];
}

void ResponseOrder::post(uint64_t batch, Mails& mails) {
  std::unique_lock lock(mutex_);
  auto& held = of(batch).mails;
  held.reserve(held.size() + mails.size());  // what throws has taken nothing
  for (auto& [home, burst] : mails)
    if (!burst.empty()) held.emplace_back(home, std::exchange(burst, {}));
  send(lock);
}

void ResponseOrder::end(uint64_t batch) {
  std::unique_lock lock(mutex_);
  of(batch).over = true;
  send(lock);
}

// A Home may lead back here, so none is called with the lock held.
void ResponseOrder::send(std::unique_lock<std::mutex>& lock) {
  if (sending_) return;
  sending_ = true;
  while (!held_.empty() && (held_.front().over || !held_.front().mails.empty())) {
    auto mails = std::exchange(held_.front().mails, {});
    if (held_.front().over) held_.pop_front(), ++first_;
    lock.unlock();
    for (auto& [home, burst] : mails)
      base::until_done("answers in their order", [home = home, &burst = burst] { home->post(burst); });
    lock.lock();
  }
  sending_ = false;
}

}  // namespace weir::sched
