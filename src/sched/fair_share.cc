#include "sched/fair_share.h"

#include <algorithm>

#include "msg/tenant.h"

namespace weir::sched {

uint64_t FairShare::came(uint32_t level, uint64_t tenant, uint64_t work) {
  if (ends_.size() >= prune_at_) prune();
  uint64_t& end = ends_[{level, tenant}];
  uint64_t tag = std::max(now_[level], end);
  end = tag + work;
  return tag;
}

void FairShare::began(uint32_t level, uint64_t tag, uint64_t work) {
  uint64_t& now = now_[level];
  now = std::max(now, tag + work);
}

// Only the last one's, so that a tenant's tags never go down.
void FairShare::left(uint32_t level, uint64_t tenant, uint64_t tag, uint64_t work) {
  auto at = ends_.find({level, tenant});
  if (at != ends_.end() && at->second == tag + work) at->second = tag;
}

// Who has nothing to wait for is like one that never came.
void FairShare::prune() {
  std::erase_if(ends_, [this](const auto& each) { return each.second <= now_[each.first.first]; });
  prune_at_ = std::max<size_t>(64, 2 * ends_.size());
}

TokenHoldings::TokenHoldings(uint64_t total, uint32_t percent)
    : share_(percent >= 100 ? UINT64_MAX : std::max<uint64_t>(total * percent / 100, 1)) {}

void TokenHoldings::add(uint64_t tenant, uint64_t amount) {
  if (msg::speaks_for_many(tenant)) return;
  auto at = std::find_if(held_.begin(), held_.end(), [tenant](const auto& each) { return each.first == tenant; });
  if (at == held_.end()) at = held_.insert(at, {tenant, 0});
  at->second += amount;
}

std::optional<uint64_t> TokenHoldings::gives_way(uint64_t claimant, uint64_t more) const {
  const std::pair<uint64_t, uint64_t>* most = nullptr;
  for (const auto& each : held_) {
    if (each.first == claimant && each.second + more > share_) return std::nullopt;
    if (each.second > share_ && (!most || each.second > most->second)) most = &each;
  }
  if (!most || most->first == claimant || more > share_) return std::nullopt;
  return most->first;
}

}  // namespace weir::sched
