#include "dialects/salience/state.h"

#include "marshal/tenant_name.h"

namespace weir::salience {
namespace {

using marshal::kHostsTenant;
using marshal::kHostTenant;
using marshal::kKeyTenant;

constexpr std::string_view kShared = "shared";

}  // namespace

session::Tenant SalienceState::tenant(wire::Rpc& rpc) const {
  const wire::Request& request = rpc.exchange().request();
  const uint64_t known = request.identity ? request.identity->tenant_number : 0;
  if (known != 0 && !msg::is_anonymous(known)) return {options.quota->number_of(known), known};
  const bool shared = options.anonymous == msg::Anonymous::kShared;
  return {0, shared ? 0 : marshal::tenant_of(request)};
}

std::string SalienceState::tenant_name(wire::Rpc& rpc) const {
  const wire::Request& request = rpc.exchange().request();
  const uint64_t known = request.identity ? request.identity->tenant_number : 0;
  const bool nobody = known == 0 || msg::is_anonymous(known);
  if (nobody && options.anonymous == msg::Anonymous::kShared) return std::string(kShared);
  return marshal::name_of_tenant(request);
}

session::Tenant SalienceState::tenant_of_name(std::string_view name) const {
  using marshal::Clients;
  if (name.starts_with(kKeyTenant)) {
    const uint64_t number = marshal::number_of_tenant(name.substr(kKeyTenant.size()));
    return {options.quota->number_of(number), number};
  }
  if (options.anonymous == msg::Anonymous::kShared) return {0, 0};
  if (name.starts_with(kHostsTenant))
    return {0, marshal::number_of_host(name.substr(kHostsTenant.size()), Clients::kMany)};
  return {0, marshal::number_of_host(name.substr(std::min(name.size(), kHostTenant.size())), Clients::kOne)};
}

}  // namespace weir::salience
