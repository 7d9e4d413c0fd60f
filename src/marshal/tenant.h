// On whose behalf a request comes, as schedulers, caches and sessions tell clients apart (msg::Call::tenant).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/sip_hash.h"
#include "wire/exchange.h"

namespace weir::marshal {

// The host of whoever asks, as tenants are told apart by it: the address without its port, the /64 network of IPv6, or
// the client that a trusted proxy names; "unix". The one place that says what a client is.
inline std::string_view client_of(const wire::Request& request) {
  return request.peer ? request.peer->host() : std::string_view();
}

// A number of whoever has shown the same secret, where a dialect has checked one; else of whoever comes from the same
// host. Keyed, so that nobody can come as another; even and odd as msg::is_anonymous() says. Never 0. Of this process:
// the next one has other numbers.
inline uint64_t tenant_of(const wire::Request& request, std::string_view secret = {}) {
  if (secret.empty()) return base::hash64(base::process_key(), client_of(request)) | 1;
  uint64_t hash = base::hash64(base::process_key(), secret) & ~uint64_t(1);
  return hash != 0 ? hash : 2;
}

}  // namespace weir::marshal
