// Authenticator: says who asks, before a request is routed, for every protocol alike. One per Router, on its thread.
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
  // Lets in a request that is for a route of `protocol` ("openai"; empty: of none) which asks for `permission`, or says
  // why not:
  //   UNAUTHENTICATED     it shows nothing that is known, or what has expired
  //   PERMISSION_DENIED   what it shows has not the role
  //   RESOURCE_EXHAUSTED  it is over its limits; retry_after() says when to come again
  // The texts never hold a secret. A Caller without an Identity: nobody has asked who it is.
  virtual base::Result<Caller> admit(const Request& request, Permission permission, std::string_view protocol) = 0;
  // The name of who asks, for the logs of a request that was refused; "" where what it shows is not known. It counts as
  // no request.
  virtual std::string name_of(const Request& request) = 0;
  // Whether a request that was let in may have `permission`, too. Counts nothing. Errors: UNAUTHENTICATED,
  // PERMISSION_DENIED.
  virtual base::Status permit(const Request& request, Permission permission) = 0;

 protected:
  ~Authenticator() = default;
};

}  // namespace weir::wire
