#include "dialects/openai/responses/stored.h"

#include <algorithm>
#include <utility>

namespace weir::openai::responses {

namespace {

uint64_t bytes_of(const StoredResponse& stored) {
  constexpr uint64_t kRecord = 512;  // what a record holds beside its texts
  return kRecord + stored.owner.size() + stored.turns.size() + stored.response.size() + stored.about.size();
}

// Whether a text is unchanged. Texts are shared, so an unchanged one has the same address.
bool is_same(const base::Bytes& a, const base::Bytes& b) { return a.data() == b.data() && a.size() == b.size(); }

// Merges an edit into the record as it is `now`: `seen` is the record that the edit began with, `next` its result,
// which gets what others have changed since. False: both have changed the same text.
bool merge(const StoredResponse& now, const StoredResponse& seen, StoredResponse& next) {
  const bool same_turns = is_same(now.turns, seen.turns), same_response = is_same(now.response, seen.response);
  if (!same_turns && !is_same(next.turns, seen.turns)) return false;
  if (!same_response && !is_same(next.response, seen.response)) return false;
  if (!same_turns) next.turns = now.turns;
  if (!same_response) next.response = now.response, next.about = now.about;
  return true;
}

}  // namespace

void StoredResponses::Ranking::change(uint64_t tenant, uint64_t before, uint64_t now) {
  if (before > 0) ranks_.erase({before, tenant});
  if (now > 0) ranks_.insert({now, tenant});
}

uint64_t StoredResponses::Ranking::most(uint64_t tenant, uint64_t has) const {
  return ranks_.empty() || ranks_.rbegin()->first <= has ? tenant : ranks_.rbegin()->second;
}

bool StoredResponses::may_grow(const StoredResponse& stored, size_t more) const {
  return bytes_of(stored) + more <= std::min<uint64_t>(kMostBytes, share_);
}

bool StoredResponses::put(uint64_t tenant, const std::string& id, StoredResponse stored, base::Time now) {
  const uint64_t bytes = bytes_of(stored);
  if ((!stores() && stored.kind != StoredKind::kConnection) || bytes > kMostBytes) return false;
  std::lock_guard lock(mutex_);
  expire_locked(now);
  if (find_locked(tenant, id) || !make_room(tenant, 0, bytes, nullptr)) return false;
  Tenant& whose = tenants_[tenant];
  records_.push_back({id, tenant, bytes, now + kept_for_, std::move(stored), {}});
  const auto record = std::prev(records_.end());
  record->own = whose.own.insert(whose.own.end(), record);
  whose.at.emplace(record->id, record);
  counts_.change(tenant, whose.own.size() - 1, whose.own.size());
  bytes_.change(tenant, whose.bytes, whose.bytes + bytes);
  whose.bytes += bytes;
  return true;
}

// Removes the tenant's oldest record, except `kept`, the one that grows. False: it has no other.
bool StoredResponses::evict(uint64_t tenant, const Record* kept) {
  const auto whose = tenants_.find(tenant);
  if (whose == tenants_.end()) return false;
  auto oldest = whose->second.own.begin();
  if (&**oldest == kept && ++oldest == whose->second.own.end()) return false;
  const Records::iterator record = *oldest;
  if (evicted_ && !record->stored.owner.empty()) evicted_(record->stored.owner, record->id);
  erase(record);
  return true;
}

// Reserves the bytes, and evicts records for them. False: they are more than a tenant's share, or as many were evicted
// and there still is no room, because others have taken it.
bool StoredResponses::make_room(uint64_t tenant, uint64_t before, uint64_t bytes, const Record* kept) {
  if (bytes > share_) return false;
  const size_t more = kept ? 0 : 1;
  const uint64_t held = byte_quota_.held();
  for (;;) {
    const auto whose = tenants_.find(tenant);
    const uint64_t count = whose == tenants_.end() ? 0 : whose->second.own.size();
    const uint64_t has = whose == tenants_.end() ? 0 : whose->second.bytes;
    uint64_t gives = tenant;
    if (count + more <= kMost / 4 && has - before + bytes <= share_) {
      if (records_.size() + more > kMost)
        gives = counts_.most(tenant, count);
      else if (byte_quota_.resize(tenant, before, bytes).ok())
        return true;
      else if (held - byte_quota_.held() >= bytes)
        return false;
      else
        gives = bytes_.most(tenant, has);
    }
    if (!evict(gives, kept)) return false;
  }
}

StoredResponses::Replaced StoredResponses::replace(uint64_t tenant, const std::string& id, const StoredResponse& seen,
                                                   StoredResponse next, base::Time now) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  const auto found = find_locked(tenant, id);
  if (!found) return Replaced::kGone;
  const Records::iterator record = *found;
  if (!merge(record->stored, seen, next)) return Replaced::kChanged;
  const uint64_t bytes = bytes_of(next);
  if (bytes > kMostBytes) return Replaced::kNoRoom;
  Tenant& whose = tenants_.find(tenant)->second;
  if (record->stored.kind == StoredKind::kConversation) {
    whose.own.splice(whose.own.end(), whose.own, record->own);
    records_.splice(records_.end(), records_, record);
    record->until = now + ttl_;
  }
  if (!make_room(tenant, record->bytes, bytes, &*record)) return Replaced::kNoRoom;
  bytes_.change(tenant, whose.bytes, whose.bytes - record->bytes + bytes);
  whose.bytes = whose.bytes - record->bytes + bytes;
  record->bytes = bytes;
  record->stored = std::move(next);
  return Replaced::kDone;
}

std::optional<StoredResponses::Records::iterator> StoredResponses::find_locked(uint64_t tenant, const std::string& id) {
  const auto whose = tenants_.find(tenant);
  if (whose == tenants_.end()) return std::nullopt;
  const auto at = whose->second.at.find(id);
  return at == whose->second.at.end() ? std::nullopt : std::optional(at->second);
}

std::optional<StoredResponse> StoredResponses::find(uint64_t tenant, const std::string& id, base::Time now,
                                                    StoredKind kind) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  const auto record = find_locked(tenant, id);
  if (!record || (*record)->stored.kind != kind) return {};
  return (*record)->stored;
}

bool StoredResponses::remove(uint64_t tenant, const std::string& id, base::Time now, StoredKind kind) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  const auto record = find_locked(tenant, id);
  if (!record || (*record)->stored.kind != kind) return false;
  erase(*record);
  return true;
}

bool StoredResponses::each_chat(uint64_t tenant, base::Time now, const std::string& after, Order order,
                                const Visit& visit) {
  std::lock_guard lock(mutex_);
  expire_locked(now);
  const auto whose = tenants_.find(tenant);
  bool begun = after.empty();
  if (whose == tenants_.end()) return begun;
  const auto goes_on = [&](const Records::iterator& record) {
    if (record->stored.kind != StoredKind::kChat) return true;
    return begun ? visit(record->id, record->stored) : (begun = record->id == after, true);
  };
  const Own& own = whose->second.own;
  if (order == Order::kNewestFirst)
    (void)std::all_of(own.rbegin(), own.rend(), goes_on);
  else
    (void)std::all_of(own.begin(), own.end(), goes_on);
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
  const uint64_t tenant = record->tenant;
  const auto whose = tenants_.find(tenant);
  Tenant& has = whose->second;
  counts_.change(tenant, has.own.size(), has.own.size() - 1);
  bytes_.change(tenant, has.bytes, has.bytes - record->bytes);
  has.bytes -= record->bytes;
  (void)byte_quota_.resize(tenant, record->bytes, 0);
  has.at.erase(record->id);
  has.own.erase(record->own);
  if (has.own.empty()) tenants_.erase(whose);
  records_.erase(record);
}

}  // namespace weir::openai::responses
