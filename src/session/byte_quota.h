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

class ByteQuota {
 public:
  // The bytes are also charged to `ledger`, unless it is null.
  ByteQuota(uint64_t per_tenant, uint64_t total, base::MemoryLedger* ledger = nullptr)
      : per_tenant_(per_tenant), total_(total), ledger_(ledger) {}

  // Sets the share that one tenant may hold once more than half of `total` is held. Call it before the first
  // reservation.
  void set_share(base::ShareRule share) { share_ = share; }
  // Changes what a session holds from `before` to `now` bytes. Errors, which only a larger `now` can have and which
  // change nothing: RESOURCE_EXHAUSTED.
  base::Status resize(uint64_t tenant, uint64_t before, uint64_t now);
  uint64_t held() const;
  uint64_t held(uint64_t tenant) const;

 private:
  bool charge(uint64_t bytes);

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

  base::Status hold(uint64_t bytes) {
    constexpr uint64_t kStep = 4096;
    uint64_t taken = (bytes + kStep - 1) / kStep * kStep;
    if (!byte_quota_ || taken == taken_) return {};
    if (auto status = byte_quota_->resize(tenant_, taken_, taken); !status.ok()) return status;
    taken_ = taken;
    return {};
  }

 private:
  ByteQuota* const byte_quota_;
  const uint64_t tenant_;
  uint64_t taken_ = 0;
};

}  // namespace weir::session
