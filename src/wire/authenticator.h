// Authenticator: identifies the caller of a request before it is routed, for every protocol alike. One per Router, on
// its thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/access.h"
#include "wire/exchange.h"
#include "wire/identity.h"

namespace weir::wire {

class Authenticator {
 public:
  // Admits a request for a route of `protocol` ("openai"; empty: of none) that requires `permission`. Errors, whose
  // texts never hold a secret:
  //   UNAUTHENTICATED     its credentials are unknown, expired or missing
  //   PERMISSION_DENIED   its credentials lack the role
  //   RESOURCE_EXHAUSTED  it is over its limits; retry_after() says when to come again
  // A Caller without an Identity: no authentication is configured.
  virtual base::Result<Caller> admit(const Request& request, Permission permission, std::string_view protocol) = 0;
  // The name of the caller, for the logs of a request that was refused; "" if its credentials are not known. It does
  // not count as a request.
  virtual std::string name_of(const Request& request) = 0;
  // Whether a request that was admitted has `permission`, too. It does not count as a request. Errors: UNAUTHENTICATED,
  // PERMISSION_DENIED.
  virtual base::Status permit(const Request& request, Permission permission) = 0;

 protected:
  ~Authenticator() = default;
};

}  // namespace weir::wire
