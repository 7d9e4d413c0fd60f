// Grant: what a key, a token or a certificate allows its bearer, as plain data. make_identity() turns it into the
// Identity that requests carry.
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
  std::string tenant;  // empty: the name is a tenant of its own
  wire::Roles roles;
  std::optional<std::vector<std::string>> models;  // patterns (base/model_scope.h); nothing: all
  base::UsageLimits limits;
  // kName: the limits count the use of this grant. kTenant: they count the use of all the tenant's grants that have the
  // same limits.
  enum class LimitsOf : uint8_t { kName, kTenant } limits_of = LimitsOf::kName;
  base::WallTime expires = base::WallTime::max();
  std::string protocol;  // those whose routes it opens, as words: "openai ollama"; empty: all
};

// Reads "infer", "admin", "metrics" or "health"; nothing for any other word.
std::optional<wire::Role> parse_role(std::string_view word);
// Writes "infer, metrics"; "none" if there are no roles.
std::string show_roles(wire::Roles roles);

// The usage limiters, which all shards share. A grant that is read anew keeps the limiter of its name, and so what it
// has used, unless its limits have changed. Any thread.
class Limiters {
 public:
  // Null if there are no limits.
  std::shared_ptr<base::UsageLimiter> of(const std::string& name, const base::UsageLimits& limits);
  // The same for a tenant whose grants may have different limits, as tokens may: there is one limiter for each set of
  // limits, so that grants with other limits neither reset nor share what was used.
  std::shared_ptr<base::UsageLimiter> of_tenant(const std::string& tenant, const base::UsageLimits& limits);

 private:
  std::shared_ptr<base::UsageLimiter> find(const std::string& key, const std::string& name,
                                           const base::UsageLimits& limits);

  static constexpr size_t kMost = 65536;  // from here on limiters that no Identity uses are dropped

  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<base::UsageLimiter>> all_;  // under mutex_
};

// The number that schedulers and caches know a tenant by: a keyed hash, which differs in each process; even, never 0.
uint64_t tenant_number(std::string_view tenant);

std::shared_ptr<wire::Identity> make_identity(const Grant& grant, Limiters& limiters);

}  // namespace weir::auth
