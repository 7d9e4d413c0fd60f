#include "session/byte_quota.h"

#include <algorithm>
#include <string>

#include "msg/tenant.h"

namespace weir::session {

using base::Code;

base::Status ByteQuota::resize(uint64_t tenant, HeldBytes from, HeldBytes to) {
  std::lock_guard lock(mutex_);
  const uint64_t before = from.bytes, now = to.bytes;
  const auto known = tenants_.find(tenant);
  const uint64_t has = known == tenants_.end() ? 0 : known->second;
  const uint64_t would = has - before + now, all = held_ - before + now;
  if (now > before && would > per_tenant_)
    return base::explained(
        Code::kResourceExhausted,
        "all your sessions would hold " + std::to_string(would) + " bytes (limit " + std::to_string(per_tenant_) + ")",
        "SESSION_QUOTA");
  if (now > before && !msg::speaks_for_many(tenant) && !share_.allows(has - before, now, held_ - before, total_))
    return base::try_again(Code::kResourceExhausted,
                           "most of the memory for sessions is in use, and yours hold your "
                           "share of it (limits.client_share); try again later");
  const uint64_t more = to.own - std::min(to.own, from.own);  // also where bytes of others become its own
  if (would > 0) tenants_.try_emplace(tenant, has);           // what throws has charged nothing
  if ((now > before && all > total_) || ((now > before || more > 0) && !charge(all, more))) {
    if (has == 0) tenants_.erase(tenant);
    return base::try_again(Code::kResourceExhausted, "the memory for sessions is spent; try again later");
  }
  if (ledger_ && to.own < from.own) ledger_->give(base::MemoryKind::kSessions, from.own - to.own);
  held_ = all;
  if (would == 0)
    tenants_.erase(tenant);
  else
    tenants_.find(tenant)->second = would;
  return {};
}

bool ByteQuota::charge(uint64_t all, uint64_t more) {
  if (!ledger_) return true;
  return all <= ledger_->budget() / 2 && (more == 0 || ledger_->take(base::MemoryKind::kSessions, more));
}

uint64_t ByteQuota::held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

size_t ByteQuota::tenants() const {
  std::lock_guard lock(mutex_);
  return tenants_.size();
}

uint64_t ByteQuota::held(uint64_t tenant) const {
  std::lock_guard lock(mutex_);
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second;
}

}  // namespace weir::session
