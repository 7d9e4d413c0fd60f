// On whose behalf a request comes, as schedulers, caches and sessions tell clients apart (msg::Call::tenant).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/sip_hash.h"
#include "wire/exchange.h"

namespace weir::marshal {

// The client's address without its port: "127.0.0.1", "[::1]", "unix". The one place that says what a client is.
inline std::string_view client_of(const wire::Request& request) {
  if (!request.peer) return {};
  std::string_view address = request.peer->address;
  return address.substr(0, address.rfind(':'));
}

// A number of whoever has shown the same secret, where a dialect has checked one; else of whoever comes from the same
// address. Keyed, so that nobody can come as another; even and odd as msg::is_anonymous() says. Never 0. Of this
// process: the next one has other numbers.
inline uint64_t tenant_of(const wire::Request& request, std::string_view secret = {}) {
  if (secret.empty()) return base::hash64(base::process_key(), client_of(request)) | 1;
  uint64_t hash = base::hash64(base::process_key(), secret) & ~uint64_t(1);
  return hash != 0 ? hash : 2;
}

}  // namespace weir::marshal
