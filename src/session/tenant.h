// Tenant: on whose behalf a session is kept. The tenants are known at start (one per configured secret, or one for
// all); a Quota counts what each of them has, and all together, over all shards.
#pragma once

#include <atomic>
#include <cstdint>
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
  // The bytes are charged to `ledger`, too; null: to nobody.
  explicit Quota(size_t tenants, base::MemoryLedger* ledger = nullptr)
      : ledger_(ledger), taken_(tenants), held_(tenants) {}

  size_t tenants() const { return taken_.size(); }
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
  std::vector<std::atomic<uint32_t>> taken_;
  std::vector<std::atomic<uint64_t>> held_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace weir::session
