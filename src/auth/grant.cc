#include "auth/grant.h"

#include <utility>

#include "auth/usage_limits.h"
#include "marshal/tenant.h"

namespace weir::auth {
namespace {

constexpr std::pair<std::string_view, wire::Role> kRoles[] = {{"infer", wire::Role::kInfer},
                                                              {"admin", wire::Role::kAdmin},
                                                              {"metrics", wire::Role::kMetrics},
                                                              {"health", wire::Role::kHealth}};

}  // namespace

std::optional<wire::Role> parse_role(std::string_view word) {
  for (const auto& [name, role] : kRoles)
    if (name == word) return role;
  return std::nullopt;
}

std::string show_roles(wire::Roles roles) {
  std::string out;
  for (const auto& [name, role] : kRoles)
    if (roles.has(role)) (out += out.empty() ? "" : ", ") += name;
  return out.empty() ? "none" : out;
}

std::shared_ptr<base::UsageLimiter> Limiters::of(const std::string& name, const base::UsageLimits& limits) {
  return limits.none() ? nullptr : find(name, name, limits);
}

std::shared_ptr<base::UsageLimiter> Limiters::of_tenant(const std::string& tenant, const base::UsageLimits& limits) {
  return limits.none() ? nullptr : find(tenant + '\n' + show_limits(limits), tenant, limits);
}

std::shared_ptr<base::UsageLimiter> Limiters::find(const std::string& key, const std::string& name,
                                                   const base::UsageLimits& limits) {
  std::lock_guard lock(mutex_);
  if (all_.size() >= kMost) std::erase_if(all_, [](const auto& each) { return each.second.use_count() == 1; });
  auto& limiter = all_[key];
  if (!limiter || limiter->limits() != limits) limiter = std::make_shared<base::UsageLimiter>(name, limits);
  return limiter;
}

uint64_t tenant_number(std::string_view tenant) { return marshal::number_of_tenant(tenant); }

std::shared_ptr<wire::Identity> make_identity(const Grant& grant, Limiters& limiters) {
  auto out = std::make_shared<wire::Identity>();
  out->name = grant.name;
  out->tenant = grant.tenant.empty() ? grant.name : grant.tenant;
  out->tenant_number = tenant_number(out->tenant);
  out->roles = grant.roles;
  out->roles.add(wire::Role::kHealth);
  if (grant.models) out->models = std::make_shared<const base::ModelScope>(*grant.models);
  out->limiter = grant.limits_of == Grant::LimitsOf::kName ? limiters.of(grant.name, grant.limits)
                                                           : limiters.of_tenant(out->tenant, grant.limits);
  out->expires = grant.expires;
  out->protocol = grant.protocol;
  return out;
}

}  // namespace weir::auth
