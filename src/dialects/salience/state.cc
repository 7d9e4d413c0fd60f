#include "dialects/salience/state.h"

#include "marshal/tenant.h"

namespace weir::salience {

session::Tenant SalienceState::tenant(wire::Rpc& rpc) const {
  const wire::Request& request = rpc.exchange().request();
  if (request.identity && request.identity->tenant_number != 0)
    return {options.quota->number_of(request.identity->tenant_number), request.identity->tenant_number};
  const bool shared = options.anonymous == msg::Anonymous::kShared;
  return {0, shared ? 0 : marshal::tenant_of(request)};
}

}  // namespace weir::salience
