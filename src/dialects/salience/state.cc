#include "dialects/salience/state.h"

#include "marshal/tenant.h"

namespace weir::salience {
namespace {

constexpr std::string_view kKey = "key ", kHost = "host ", kHosts = "hosts ", kShared = "shared";

}  // namespace

session::Tenant SalienceState::tenant(wire::Rpc& rpc) const {
  const wire::Request& request = rpc.exchange().request();
  const uint64_t known = request.identity ? request.identity->tenant_number : 0;
  if (known != 0 && !msg::is_anonymous(known)) return {options.quota->number_of(known), known};
  const bool shared = options.anonymous == msg::Anonymous::kShared;
  return {0, shared ? 0 : marshal::tenant_of(request)};
}

// Another node gives the host of its client as the tenant of an identity that is nobody's (app/node_callers.h).
std::string SalienceState::tenant_name(wire::Rpc& rpc) const {
  const wire::Request& request = rpc.exchange().request();
  const uint64_t known = request.identity ? request.identity->tenant_number : 0;
  auto named = [](std::string_view kind, std::string_view name) { return std::string(kind).append(name); };
  if (known != 0 && !msg::is_anonymous(known)) return named(kKey, request.identity->tenant);
  if (options.anonymous == msg::Anonymous::kShared) return std::string(kShared);
  const bool many = msg::speaks_for_many(marshal::tenant_of(request));
  return named(many ? kHosts : kHost, known != 0 ? request.identity->tenant : marshal::client_of(request));
}

session::Tenant SalienceState::tenant_of_name(std::string_view name) const {
  using marshal::Clients;
  if (name.starts_with(kKey)) {
    const uint64_t number = marshal::number_of_tenant(name.substr(kKey.size()));
    return {options.quota->number_of(number), number};
  }
  if (options.anonymous == msg::Anonymous::kShared) return {0, 0};
  if (name.starts_with(kHosts)) return {0, marshal::number_of_host(name.substr(kHosts.size()), Clients::kMany)};
  return {0, marshal::number_of_host(name.substr(std::min(name.size(), kHost.size())), Clients::kOne)};
}

}  // namespace weir::salience
