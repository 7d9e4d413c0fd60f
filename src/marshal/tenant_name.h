// The tenant of tenant_of() (tenant.h) as all nodes of a cluster name it.
#pragma once

#include <string>
#include <string_view>

#include "marshal/tenant.h"

namespace weir::marshal {

inline constexpr std::string_view kKeyTenant = "key ", kHostTenant = "host ", kHostsTenant = "hosts ";

// "key " name, "host " host, or "hosts " host where it stands for many clients. Another node gives the host of its
// client as the tenant of an identity that is nobody's (app/node_callers.h).
inline std::string name_of_tenant(const wire::Request& request) {
  const uint64_t known = request.identity ? request.identity->tenant_number : 0;
  auto named = [](std::string_view kind, std::string_view name) { return std::string(kind).append(name); };
  if (known != 0 && !msg::is_anonymous(known)) return named(kKeyTenant, request.identity->tenant);
  const bool many = msg::speaks_for_many(tenant_of(request));
  return named(many ? kHostsTenant : kHostTenant,
               known != 0 ? std::string_view(request.identity->tenant) : client_of(request));
}

}  // namespace weir::marshal
