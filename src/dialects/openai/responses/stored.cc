#include "dialects/openai/responses/stored.h"

#include <utility>

namespace weir::openai::responses {

bool StoredResponses::put(uint64_t tenant, const std::string& id, StoredResponse stored, base::Time now) {
  constexpr uint64_t kRecord = 512;  // what a record holds beside its texts
  const uint64_t bytes = kRecord + stored.owner.size() + stored.turns.size() + stored.response.size();
  if (!stores() || bytes > kMostBytes) return false;
  std::lock_guard lock(mutex_);
  expire_locked(now);
  auto& own = tenants_[tenant];
  while (at_.size() >= kMost || !byte_quota_.resize(tenant, 0, bytes).ok()) {
    if (own.empty()) return tenants_.erase(tenant), false;
    const auto oldest = at_.find(own.front())->second;
    (void)byte_quota_.resize(tenant, oldest->bytes, 0);
    own.pop_front();
    if (evicted_) evicted_(oldest->stored.owner, oldest->id);
    at_.erase(oldest->id);
    records_.erase(oldest);
  }
  own.push_back(id);
  records_.push_back({id, tenant, bytes, now + ttl_, std::move(stored), std::prev(own.end())});
  at_.emplace(id, std::prev(records_.end()));
  return true;
}

std::optional<StoredResponse> StoredResponses::find(uint64_t tenant, const std::string& id, base::Time now) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  auto at = at_.find(id);
  if (at == at_.end() || at->second->tenant != tenant) return {};
  return at->second->stored;
}

bool StoredResponses::remove(uint64_t tenant, const std::string& id, base::Time now) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  auto at = at_.find(id);
  if (at == at_.end() || at->second->tenant != tenant) return false;
  erase(at->second);
  return true;
}

base::Time StoredResponses::expire(base::Time now) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  return records_.empty() ? base::kNever : records_.front().until;
}

size_t StoredResponses::size() const {
  std::lock_guard lock(mutex_);
  return records_.size();
}

void StoredResponses::expire_locked(base::Time now) {
  while (!records_.empty() && records_.front().until <= now) erase(records_.begin());
}

void StoredResponses::erase(Records::iterator record) {
  auto own = tenants_.find(record->tenant);
  own->second.erase(record->own);
  if (own->second.empty()) tenants_.erase(own);
  (void)byte_quota_.resize(record->tenant, record->bytes, 0);
  at_.erase(record->id);
  records_.erase(record);
}

}  // namespace weir::openai::responses
