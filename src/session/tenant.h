// Tenant: on whose behalf a session is kept. Number 0 is all who have shown no key; tenants with keys get numbers as
// they come. A Quota counts what each of them has, and all together, over all shards.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/memory_ledger.h"

namespace weir::session {

struct Tenant {
  uint32_t number = 0;  // below Quota::tenants()
  // For a tenant of many clients: a number of the client's own. The sessions of one do not exist for the others.
  uint64_t client = 0;

  friend bool operator==(const Tenant&, const Tenant&) = default;
};

// Any thread.
class Quota {
 public:
  // `tenants` have their numbers; `more` may get one by number_of(). The bytes are charged to `ledger`, too; null: to
  // nobody.
  explicit Quota(size_t tenants, base::MemoryLedger* ledger = nullptr, size_t more = 0)
      : ledger_(ledger), tenants_(tenants), taken_(tenants + more), held_(tenants + more) {}

  size_t tenants() const { return tenants_.load(std::memory_order_relaxed); }
  // The number of whoever is known by `key`: the same from then on. Where all numbers are given away, tenants share
  // them, and with them their quotas; their sessions stay apart by Tenant::client.
  uint32_t number_of(uint64_t key) {
    std::lock_guard lock(mutex_);
    if (auto known = numbers_.find(key); known != numbers_.end()) return known->second;
    if (tenants() == taken_.size()) return uint32_t(key % taken_.size());
    return numbers_[key] = uint32_t(tenants_.fetch_add(1, std::memory_order_relaxed));
  }
  // One more, if that makes no more than `limit`.
  bool take(Tenant tenant, uint32_t limit) {
    auto& n = taken_[tenant.number];
    uint32_t now = n.load(std::memory_order_relaxed);
    while (now < limit)
      if (n.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return true;
    return false;
  }
  void give(Tenant tenant) { taken_[tenant.number].fetch_sub(1, std::memory_order_relaxed); }
  uint32_t taken(Tenant tenant) const { return taken_[tenant.number].load(std::memory_order_relaxed); }

  // Bytes that all sessions hold; a session says how many it held and how many now.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t bytes(Tenant tenant) const { return held_[tenant.number].load(std::memory_order_relaxed); }
  void charge(Tenant tenant, uint64_t before, uint64_t now) {
    bytes_.fetch_add(now - before, std::memory_order_relaxed);
    held_[tenant.number].fetch_add(now - before, std::memory_order_relaxed);
    if (!ledger_) return;
    if (now > before)
      ledger_->add(base::MemoryKind::kSessions, now - before);
    else
      ledger_->give(base::MemoryKind::kSessions, before - now);
  }
  // Whether the ledger has room for more.
  bool room(uint64_t more) const { return !ledger_ || ledger_->has_room(base::MemoryKind::kSessions, more); }

 private:
  base::MemoryLedger* const ledger_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint32_t> numbers_;  // under mutex_
  std::atomic<size_t> tenants_;
  std::vector<std::atomic<uint32_t>> taken_;
  std::vector<std::atomic<uint64_t>> held_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace weir::session
