#include "cluster/lease_view.h"

#include "base/clock.h"

namespace weir::cluster {

// Sets what epoch() reads. The lease goes first where it gets shorter, and last where it gets longer.
void LeaseView::claim(base::Time until, uint64_t incarnation) {
  if (until < until_.load()) until_ = until;
  incarnation_ = incarnation;
  until_ = until;
  if (until != base::Time()) name_taken_ = false;
}

uint64_t LeaseView::epoch() const { return base::steady_now() < until_.load() ? incarnation_.load() : 0; }

std::string LeaseView::why_none(const std::string& name) const {
  if (name_taken_) return "but not this one: the name '" + name + "' (cluster.name) is another process's";
  return "but NATS has not taken what this one says of itself: kept sessions are refused";
}

}  // namespace weir::cluster
