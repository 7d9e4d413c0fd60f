// ByteQuota: limits the bytes that the sessions of a protocol hold, for each tenant and in all. A tenant is any 64-bit
// number (marshal::tenant_of). Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/client.h"
#include "base/memory_ledger.h"
#include "base/status.h"

namespace weir::session {

// The bytes that a session holds. Those that lie in slabs, or in other memory that the ledger has been charged for, are
// not its own.
struct HeldBytes {
  HeldBytes(uint64_t all) : bytes(all), own(all) {}
  HeldBytes(uint64_t all, uint64_t of_its_own) : bytes(all), own(of_its_own) {}

  uint64_t bytes, own;
};

class ByteQuota {
 public:
  // The bytes that are the sessions' own are also charged to `ledger`, unless it is null. All together are at most half
  // of its budget, because nobody gives them back soon.
  ByteQuota(uint64_t per_tenant, uint64_t total, base::MemoryLedger* ledger = nullptr)
      : per_tenant_(per_tenant), total_(total), ledger_(ledger) {}

  // Sets the share that one tenant may hold once more than half of `total` is held. Call it before the first
  // reservation.
  void set_share(base::ShareRule share) { share_ = share; }
  // Changes what a session holds from `before` to `now`. Errors, which only a larger `now` can have and which change
  // nothing: RESOURCE_EXHAUSTED.
  base::Status resize(uint64_t tenant, HeldBytes before, HeldBytes now);
  uint64_t held() const;
  uint64_t held(uint64_t tenant) const;
  size_t tenants() const;  // that hold some

 private:
  bool charge(uint64_t all, uint64_t more);

  const uint64_t per_tenant_, total_;
  base::MemoryLedger* const ledger_;
  base::ShareRule share_{.percent = 100};
  mutable std::mutex mutex_;
  uint64_t held_ = 0;
  std::unordered_map<uint64_t, uint64_t> tenants_;  // bytes held; only tenants that hold some
};

// The bytes that one session holds of a ByteQuota, rounded up to 4 KiB, so that most changes do not take the shared
// lock.
class Reservation {
 public:
  Reservation(ByteQuota* byte_quota, uint64_t tenant)
      : byte_quota_(byte_quota), tenant_(tenant) {}  // null: without limit
  ~Reservation() { (void)hold(0); }
  Reservation(const Reservation&) = delete;

  base::Status hold(HeldBytes held) {
    const HeldBytes taken{in_steps(held.bytes), in_steps(held.own)};
    if (!byte_quota_ || (taken.bytes == taken_.bytes && taken.own == taken_.own)) return {};
    if (auto status = byte_quota_->resize(tenant_, taken_, taken); !status.ok()) return status;
    taken_ = taken;
    return {};
  }

 private:
  static uint64_t in_steps(uint64_t bytes) {
    constexpr uint64_t kStep = 4096;
    return (bytes + kStep - 1) / kStep * kStep;
  }

  ByteQuota* const byte_quota_;
  const uint64_t tenant_;
  HeldBytes taken_ = 0;
};

}  // namespace weir::session
