#include "auth/jwt_settings.h"

#include <utility>

#include "auth/grant.h"
#include "auth/usage_limits.h"
#include "base/log.h"
#include "wire/access.h"

namespace weir::auth {
namespace {

using base::invalid;

// Keys that come in cleartext may be anybody's, but from this machine.
base::Status check_keys_url(const std::string& url) {
  constexpr std::string_view kCleartext = "http://";
  if (url.starts_with("https://")) return {};
  std::string_view rest(url);
  if (rest.starts_with(kCleartext)) {
    rest.remove_prefix(kCleartext.size());
    std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
    if (authority.find('@') == authority.npos && wire::is_loopback_name(authority)) return {};
  }
  return invalid("auth.jwt.keys_url: expected https://…, or http:// on this machine");
}

base::Setting limits_row(base::UsageLimits& limits) {
  base::Setting row;
  row.key = "auth.jwt.limits";
  row.form = base::Setting::ValueKind::kTree;
  row.help = "limits of each tenant of tokens, over all of its tokens, where the claim does not say another";
  row.read = [&limits](const base::Yaml& node, base::Complaints& complaints) {
    limits = {};
    if (node.kind != base::Yaml::Kind::kNull) read_limits(node, complaints, limits);
  };
  row.show = [&limits] { return limits.none() ? "" : "    limits: " + show_limits(limits) + '\n'; };
  return row;
}

}  // namespace

void add_jwt_settings(std::vector<base::Setting>& rows, JwtSettings& s) {
  using namespace base::setting;
  rows.push_back(
      path("auth.jwt.keys_file",
           "keys that JSON Web Tokens are signed with: JWKS, PEM, or a shared secret on one line; read again "
           "when it changes",
           s.keys_file));
  rows.push_back(text("auth.jwt.keys_url", "URL",
                      "the same as the issuer's JWKS URL (https): read every 10 min and when a token names a new key",
                      s.keys_url));
  rows.push_back(
      path("auth.jwt.ca_file", "certificates to check that URL's server with; empty: the system's", s.ca_file));
  rows.push_back(text("auth.jwt.issuer", "TEXT", "the iss that tokens must have; empty: any", s.rules.issuer));
  rows.push_back(list("auth.jwt.audience", "TEXT",
                      "the aud of tokens for this server, one of these; '*' takes tokens for anybody; repeatable",
                      s.rules.audiences));
  rows.push_back(text("auth.jwt.tenant_claim", "CLAIM", "the claim that names the tenant", s.rules.tenant_claim));
  rows.push_back(text("auth.jwt.tenant_prefix", "TEXT",
                      "what goes in front of it, so that a token cannot name the tenant of a key", s.tenant_prefix));
  rows.push_back(list("auth.jwt.roles_claim", "CLAIM",
                      "claims that list roles; a.b is the member b of the claim a; repeatable", s.rules.roles_claims));
  rows.push_back(text("auth.jwt.role_prefix", "TEXT",
                      "what a role begins with to count here: weir:infer, weir:admin, weir:metrics",
                      s.rules.role_prefix));
  rows.push_back(list("auth.jwt.default_roles", "ROLE", "roles of tokens that name none that counts; repeatable",
                      s.default_roles));
  rows.push_back(text("auth.jwt.models_claim", "CLAIM",
                      "the claim that lists patterns of models; a token without it may use all", s.rules.models_claim));
  rows.push_back(
      text("auth.jwt.limits_claim", "CLAIM",
           "the claim that holds limits of the token's tenant: {\"requests_per_second\": 20, \"concurrent\": 8, "
           "\"tokens_per_minute\": 100000, \"bytes_per_minute\": 67108864}; empty: no claim does",
           s.rules.limits_claim));
  rows.push_back(limits_row(s.rules.limits));
  rows.push_back(duration("auth.jwt.leeway", "how much the clocks of issuer and server may differ", s.rules.leeway));
}

base::Status check_jwt_settings(const JwtSettings& s) {
  if (!s.on()) return {};
  if (!s.keys_file.empty() && !s.keys_url.empty())
    return invalid("auth.jwt.keys_file and auth.jwt.keys_url: expected one of them");
  if (s.rules.audiences.empty())
    return invalid(
        "auth.jwt.audience: expected the aud of tokens for this server; without it a token for any other service would "
        "be taken ('*' says that this is meant)");
  if (s.rules.tenant_claim.empty()) return invalid("auth.jwt.tenant_claim: expected the name of a claim");
  for (const auto& role : s.default_roles)
    if (!parse_role(role))
      return invalid("auth.jwt.default_roles: expected infer, admin, metrics or health, got '" + role + "'");
  if (s.rules.leeway > std::chrono::hours(1)) return invalid("auth.jwt.leeway: expected 1h at most");
  return s.keys_url.empty() ? base::Status{} : check_keys_url(s.keys_url);
}

base::Result<std::shared_ptr<const KeySet>> read_jwt_keys(const std::string& file, base::Pipes pipes) {
  auto content = base::read_text_file(file, pipes, KeySet::kMostBytes);
  if (!content) return invalid("auth.jwt.keys_file: " + content.error().text);
  auto set = KeySet::parse_file(*content);
  if (!set) return invalid("auth.jwt.keys_file: '" + file + "': " + set.error().text);
  for (const auto& reason : set->left_out())
    base::log::warning("a key of auth.jwt.keys_file is not used", {{"file", file}, {"reason", reason}});
  return std::make_shared<const KeySet>(std::move(*set));
}

}  // namespace weir::auth
