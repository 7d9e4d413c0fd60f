#include "auth/failure_limit.h"

#include <algorithm>

namespace weir::auth {
namespace {

constexpr base::Duration kOneUnit = std::chrono::nanoseconds(std::chrono::seconds(1)) / FailureLimit::kPerSecond;

}  // namespace

base::Duration FailureLimit::wait(std::string_view client, base::Time now) const {
  const base::Time full_at = full_at_[slot_of(client)];
  if (full_at <= now) return base::Duration(0);
  return std::max<base::Duration>(full_at - now - kOneUnit * (kBurst - 1), base::Duration(0));
}

void FailureLimit::count(std::string_view client, base::Time now, uint32_t cost) {
  base::Time& full_at = full_at_[slot_of(client)];
  full_at = std::max(full_at, now) + kOneUnit * cost;
}

}  // namespace weir::auth
