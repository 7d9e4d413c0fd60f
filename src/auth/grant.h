// Grant: what a key, a token or a certificate allows its bearer, as plain data. Its Identity is what requests carry.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "base/usage_limiter.h"
#include "wire/identity.h"

namespace weir::auth {

using IdentityRef = std::shared_ptr<const wire::Identity>;

struct Grant {
  std::string name;    // of the key, for logs and errors; never a secret
  std::string tenant;  // whose it is; empty: a tenant of its own, by its name
  wire::Roles roles;
  std::optional<std::vector<std::string>> models;  // patterns (base/model_scope.h); nothing: all
  base::UsageLimits limits;
  // The limits count the use of this name alone, or that of all grants of the tenant with the same limits.
  enum class LimitsOf : uint8_t { kName, kTenant } limits_of = LimitsOf::kName;
  base::WallTime expires = base::WallTime::max();
  std::string protocol;  // whose routes it is for, "openai"; empty: all
};

// "infer", "admin", "metrics", "health". Nothing for another word.
std::optional<wire::Role> parse_role(std::string_view word);
// "infer, metrics"; "none".
std::string show_roles(wire::Roles roles);

// The limiters of all shards, by name: a key that is read anew keeps what it has used, unless its limits have changed.
// Any thread.
class Limiters {
 public:
  // Null where there are no limits.
  std::shared_ptr<base::UsageLimiter> of(const std::string& name, const base::UsageLimits& limits);
  // The same for a tenant that may have several limits at once (tokens say them): each has a limiter of its own, so
  // that whoever changes between them has used up the one and the other.
  std::shared_ptr<base::UsageLimiter> of_tenant(const std::string& tenant, const base::UsageLimits& limits);

 private:
  std::shared_ptr<base::UsageLimiter> find(const std::string& key, const std::string& name,
                                           const base::UsageLimits& limits);

  static constexpr size_t kMost = 65536;  // above it those that nobody uses are dropped

  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<base::UsageLimiter>> all_;  // under mutex_
};

// The number of a tenant: even, keyed by this process, never 0.
uint64_t tenant_number(std::string_view tenant);

std::shared_ptr<wire::Identity> make_identity(const Grant& grant, Limiters& limiters);

}  // namespace weir::auth
