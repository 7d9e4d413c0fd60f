#include "dialects/openai/responses/stored.h"

#include <algorithm>
#include <utility>

namespace weir::openai::responses {

namespace {

uint64_t bytes_of(const StoredResponse& stored) {
  constexpr uint64_t kRecord = 512;  // what a record holds beside its texts
  return kRecord + stored.owner.size() + stored.turns.size() + stored.response.size() + stored.about.size();
}

// The texts are shared: what has the same ones has not been changed.
bool is_same(const StoredResponse& a, const StoredResponse& b) {
  return a.turns.data() == b.turns.data() && a.turns.size() == b.turns.size() && a.response.data() == b.response.data();
}

}  // namespace

bool StoredResponses::put(uint64_t tenant, const std::string& id, StoredResponse stored, base::Time now) {
  const uint64_t bytes = bytes_of(stored);
  if (!stores() || bytes > kMostBytes) return false;
  std::lock_guard lock(mutex_);
  expire_locked(now);
  if (at_.contains(id)) return false;
  auto& own = tenants_[tenant];
  if (!make_room(tenant, 0, bytes, nullptr)) {
    if (own.empty()) tenants_.erase(tenant);
    return false;
  }
  own.push_back(id);
  records_.push_back({id, tenant, bytes, now + ttl_, std::move(stored), std::prev(own.end())});
  at_.emplace(id, std::prev(records_.end()));
  return true;
}

// The tenant's oldest go, but for the one that grows.
bool StoredResponses::make_room(uint64_t tenant, uint64_t before, uint64_t bytes, const Record* kept) {
  auto& own = tenants_.find(tenant)->second;
  while ((!kept && at_.size() >= kMost) || !byte_quota_.resize(tenant, before, bytes).ok()) {
    const auto oldest = own.empty() ? records_.end() : at_.find(own.front())->second;
    if (oldest == records_.end() || &*oldest == kept) return false;
    (void)byte_quota_.resize(tenant, oldest->bytes, 0);
    own.pop_front();
    if (evicted_ && !oldest->stored.owner.empty()) evicted_(oldest->stored.owner, oldest->id);
    at_.erase(oldest->id);
    records_.erase(oldest);
  }
  return true;
}

StoredResponses::Replaced StoredResponses::replace(uint64_t tenant, const std::string& id, const StoredResponse& seen,
                                                   StoredResponse next, base::Time now) {
  const uint64_t bytes = bytes_of(next);
  if (bytes > kMostBytes) return Replaced::kNoRoom;
  std::lock_guard lock(mutex_);
  expire_locked(now);
  const auto at = at_.find(id);
  if (at == at_.end() || at->second->tenant != tenant) return Replaced::kGone;
  const auto record = at->second;
  if (!is_same(record->stored, seen)) return Replaced::kChanged;
  if (record->stored.kind == StoredKind::kConversation) {
    auto& own = tenants_.find(tenant)->second;
    own.splice(own.end(), own, record->own);
    records_.splice(records_.end(), records_, record);
    record->until = now + ttl_;
  }
  if (!make_room(tenant, record->bytes, bytes, &*record)) return Replaced::kNoRoom;
  record->bytes = bytes;
  record->stored = std::move(next);
  return Replaced::kDone;
}

std::optional<StoredResponse> StoredResponses::find(uint64_t tenant, const std::string& id, base::Time now,
                                                    StoredKind kind) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  auto at = at_.find(id);
  if (at == at_.end() || at->second->tenant != tenant || at->second->stored.kind != kind) return {};
  return at->second->stored;
}

bool StoredResponses::remove(uint64_t tenant, const std::string& id, base::Time now, StoredKind kind) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  auto at = at_.find(id);
  if (at == at_.end() || at->second->tenant != tenant || at->second->stored.kind != kind) return false;
  erase(at->second);
  return true;
}

bool StoredResponses::each_chat(uint64_t tenant, base::Time now, const std::string& after, Order order,
                                const Visit& visit) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  const auto own = tenants_.find(tenant);
  bool begun = after.empty();
  if (own == tenants_.end()) return begun;
  const auto goes_on = [&](const std::string& id) {
    const StoredResponse& stored = at_.find(id)->second->stored;
    if (stored.kind != StoredKind::kChat) return true;
    return begun ? visit(id, stored) : (begun = id == after, true);
  };
  if (order == Order::kNewestFirst)
    (void)std::all_of(own->second.rbegin(), own->second.rend(), goes_on);
  else
    (void)std::all_of(own->second.begin(), own->second.end(), goes_on);
  return begun;
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
