#include "auth/failure_limit.h"

#include <algorithm>

namespace weir::auth {
namespace {

constexpr base::Duration kOneUnit = std::chrono::nanoseconds(std::chrono::seconds(1)) / FailureLimit::kPerSecond;

}  // namespace

base::Duration FailureLimit::wait(std::string_view client, base::Time now) const {
  const base::Duration left =
      base::Duration(full_at_[slot_of(client)].load(std::memory_order_relaxed)) - now.time_since_epoch();
  return std::max<base::Duration>(left - kOneUnit * (kBurst - 1), base::Duration(0));
}

void FailureLimit::count(std::string_view client, base::Time now, uint32_t cost) {
  std::atomic<int64_t>& full_at = full_at_[slot_of(client)];
  int64_t seen = full_at.load(std::memory_order_relaxed), next;
  do {
    next = std::max(seen, int64_t(now.time_since_epoch().count())) + int64_t((kOneUnit * cost).count());
  } while (!full_at.compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

}  // namespace weir::auth
