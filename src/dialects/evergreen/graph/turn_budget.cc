#include "dialects/evergreen/graph/turn_budget.h"

#include <utility>

namespace weir::evergreen {

void TurnBudget::wait(Waiter& waiter) {
  if (waiter.waits_) return;
  waiter.place_ = waiting_.insert(waiting_.end(), &waiter);
  waiter.waits_ = true;
  arm();
}

void TurnBudget::forget(Waiter& waiter) {
  if (std::exchange(waiter.waits_, false)) waiting_.erase(waiter.place_);
  if (waiting_.empty()) env_.cancel(std::exchange(timer_, base::TimerId::kNone));
}

void TurnBudget::arm() {
  if (timer_ != base::TimerId::kNone || waiting_.empty()) return;
  timer_ = env_.at(env_.now(), [this] {
    timer_ = base::TimerId::kNone;
    begin_turn();
  });
}

void TurnBudget::begin_turn() {
  left_ = per_turn_;
  while (!waiting_.empty() && !spent()) {
    Waiter& next = *waiting_.front();
    waiting_.pop_front();
    next.waits_ = false;
    next.on_turn();
  }
  arm();
}

}  // namespace weir::evergreen
