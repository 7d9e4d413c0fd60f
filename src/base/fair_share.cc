#include "base/fair_share.h"

#include <algorithm>

namespace weir::base {

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

// A tenant that waits for nothing is treated like one that never came.
void FairShare::prune() {
  std::erase_if(ends_, [this](const auto& each) { return each.second <= now_[each.first.first]; });
  prune_at_ = std::max<size_t>(64, 2 * ends_.size());
}

}  // namespace weir::base
