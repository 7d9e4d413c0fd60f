// FairShare: whose turn it is among tenants that wait at the same priority: start-time fair queueing (Goyal, Vin and
// Cheng, 1996), with the clock of self-clocked fair queueing (Golestani, 1994). A call's tag says where in the common
// work it would begin if all tenants that wait were served at once, each at the same pace; who waits alone is not
// slowed down, and a thousand calls of one tenant do not stand before the first of another. A new tenant starts where
// the call that began last ends: however many new tenants come, a call that waits has no more of their work before it
// than of its own tenant's. Whoever uses this chooses the unit of work: tokens, bytes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace weir::base {

class FairShare {
 public:
  // The tag of a call that has come; of two calls the lower tag is first.
  uint64_t came(uint32_t level, uint64_t tenant, uint64_t work);
  // The call of that tag begins.
  void began(uint32_t level, uint64_t tag, uint64_t work);
  // The call of that tag left and had not begun. Its tenant is not charged for it if it was its last.
  void left(uint32_t level, uint64_t tenant, uint64_t tag, uint64_t work);
  size_t tenants() const { return ends_.size(); }

 private:
  void prune();

  std::map<uint32_t, uint64_t> now_;                        // by level: where the calls that have begun end
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> ends_;  // by level and tenant: where its last call ends
  size_t prune_at_ = 64;
};

}  // namespace weir::base
