// On whose behalf a request comes, as far as schedulers care (msg::Call::tenant).
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/exchange.h"

namespace weir::marshal {

// Whoever has shown the same secret, where a dialect has checked one; else whoever comes from the same host: the same
// address, the same /64 network of IPv6, or the client that a trusted proxy names.
inline uint64_t tenant_of(const wire::Request& request, std::string_view secret = {}) {
  std::string_view who = secret;
  if (who.empty() && request.peer) who = request.peer->host();
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (char c : who) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

}  // namespace weir::marshal
