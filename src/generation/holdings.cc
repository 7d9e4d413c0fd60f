#include "generation/holdings.h"

#include <algorithm>

#include "msg/tenant.h"

namespace weir::generation {

TenantHoldings::TenantHoldings(uint64_t total, uint32_t percent)
    : share_(percent >= 100 ? UINT64_MAX : std::max<uint64_t>(total * percent / 100, 1)) {}

void TenantHoldings::add(uint64_t tenant, uint64_t amount) {
  if (msg::speaks_for_many(tenant)) return;
  auto at = std::find_if(held_.begin(), held_.end(), [tenant](const auto& each) { return each.first == tenant; });
  if (at == held_.end()) at = held_.insert(at, {tenant, 0});
  at->second += amount;
}

std::optional<uint64_t> TenantHoldings::gives_way(uint64_t claimant, uint64_t more) const {
  const std::pair<uint64_t, uint64_t>* most = nullptr;
  for (const auto& each : held_) {
    if (each.first == claimant && each.second + more > share_) return std::nullopt;
    if (each.second > share_ && (!most || each.second > most->second)) most = &each;
  }
  if (!most || most->first == claimant || more > share_) return std::nullopt;
  return most->first;
}

}  // namespace weir::generation
