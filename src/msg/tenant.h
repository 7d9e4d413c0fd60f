// The flags in a tenant's number (msg::Call::tenant).
#pragma once

#include <cstdint>

namespace weir::msg {

// The requests of many clients come under this number, and nothing tells them apart: a unix socket's, or those of a
// trusted proxy that names nobody. No share of what is scarce is one client's then: they are bounded by the whole. In
// queues they take turns with others as one tenant.
inline constexpr uint64_t kManyClients = uint64_t(1) << 63;
constexpr bool speaks_for_many(uint64_t tenant) { return (tenant & kManyClients) != 0 && (tenant & 1) != 0; }

}  // namespace weir::msg
