#include "dialects/salience/state.h"

#include "marshal/tenant.h"
#include "wire/limits.h"

namespace weir::salience {
namespace {

using base::Code;
using base::failure;

}  // namespace

base::Result<session::Tenant> SalienceState::tenant(wire::Rpc& rpc) const {
  if (secrets.empty()) {
    bool shared = options.anonymous == msg::Anonymous::kShared;
    return session::Tenant{0, shared ? 0 : marshal::tenant_of(rpc.exchange().request())};
  }
  if (auto found = secrets.find(marshal::bearer_token(rpc.exchange().request())))
    return session::Tenant{uint32_t(*found), 0};
  rpc.exchange().record().reject = wire::reason::kAuth;
  rpc.initial("www-authenticate", "Bearer");
  return failure(Code::kUnauthenticated, rpc.metadata().has("authorization")
                                             ? "the bearer token is not known here"
                                             : "metadata 'authorization: Bearer <token>' is missing");
}

}  // namespace weir::salience
