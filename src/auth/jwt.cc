#include "auth/jwt.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "auth/jwt_claims.h"
#include "auth/usage_limits.h"
#include "base/base64url.h"
#include "wire/text.h"

namespace weir::auth {
namespace {

base::Status refused_token(std::string text) { return base::failure(base::Code::kUnauthenticated, std::move(text)); }

// The three parts, still encoded, and the text that the signature is of.
struct JwtParts {
  std::string_view header, claims, signature, signed_text;
};

std::optional<JwtParts> split_token(std::string_view token) {
  size_t first = token.find('.'), second = token.find('.', first + 1);
  if (first == token.npos || second == token.npos || token.find('.', second + 1) != token.npos) return {};
  return JwtParts{token.substr(0, first), token.substr(first + 1, second - first - 1), token.substr(second + 1),
                  token.substr(0, second)};
}

// RFC 8725 §3.11: tokens of other kinds (of logout, of DPoP) are no access tokens.
bool is_access_token(std::string_view type) {
  for (std::string_view known : {"", "JWT", "application/jwt", "at+jwt", "application/at+jwt"})
    if (wire::same_text(type, known)) return true;
  return false;
}

base::Status check_header(const JwtHeader& header) {
  if (header.critical) return refused_token("the token has extensions (crit) that this server does not know");
  if (!is_access_token(header.type)) return refused_token("the token is of another type (typ) than JWT");
  if (!find_algorithm(header.algorithm))
    return refused_token(
        "the token's algorithm (alg) is none of HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, "
        "ES384, ES512, EdDSA, Ed25519 and Ed448");
  return {};
}

base::Status check_times(const RegisteredClaims& claims, const JwtRules& rules, base::WallTime now) {
  using std::chrono::seconds;
  auto at = [](int64_t when) { return std::chrono::time_point<std::chrono::system_clock, seconds>(seconds(when)); };
  auto time = std::chrono::floor<seconds>(now);
  auto leeway = std::chrono::ceil<seconds>(rules.leeway);
  if (!claims.expires) return refused_token("the token does not say when it expires (exp)");
  if (at(*claims.expires) + leeway <= time) return refused_token("the token has expired (exp): get a new one");
  if (claims.not_before && at(*claims.not_before) - leeway > time)
    return refused_token("the token is not valid yet (nbf)");
  if (claims.issued && at(*claims.issued) - leeway > time)
    return refused_token("the token is from the future (iat): the clocks differ by more than auth.jwt.leeway");
  return {};
}

base::Status check_names(const RegisteredClaims& claims, const JwtRules& rules) {
  const auto& issuers = claims.issuer.texts;
  if (!rules.issuer.empty() && (issuers.size() != 1 || issuers[0] != rules.issuer))
    return refused_token("the token is of another issuer (iss) than auth.jwt.issuer");
  const auto& theirs = claims.audience.texts;
  auto meant = [&](const std::string& ours) {
    return ours == "*" || std::find(theirs.begin(), theirs.end(), ours) != theirs.end();
  };
  if (std::none_of(rules.audiences.begin(), rules.audiences.end(), meant))
    return refused_token("the token is for another audience (aud) than auth.jwt.audience");
  return {};
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostTokenName &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// The paths of the claim's members, in the order of kLimitNames; empty ones where no claim holds limits.
std::array<std::string, kLimitNames.size()> limit_paths(const JwtRules& rules) {
  std::array<std::string, kLimitNames.size()> out;
  if (rules.limits_claim.empty()) return out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = rules.limits_claim + '.' + std::string(kLimitNames[i]);
  return out;
}

base::Status set_limits(base::UsageLimits& limits, std::span<const ClaimTexts> said) {
  for (size_t i = 0; i < said.size(); ++i) {
    if (!said[i].found) continue;
    if (said[i].texts.size() == 1 && set_limit(limits, kLimitNames[i], said[i].texts[0]).ok()) continue;
    return refused_token("the token's limit '" + std::string(kLimitNames[i]) +
                         "' cannot be read: expected a number above 0 (auth.jwt.limits_claim)");
  }
  return {};
}

// The claims' JSON, read and held against the rules; the roles' claims come last in `wanted`.
base::Result<JwtClaims> read_claims(std::string_view json, const JwtRules& rules, base::WallTime now) {
  std::vector<ClaimTexts> wanted{{rules.tenant_claim, ClaimTexts::Words::kWhole}, {rules.models_claim}};
  const auto limits = limit_paths(rules);
  for (const auto& path : limits) wanted.push_back({path, ClaimTexts::Words::kWhole});
  for (const auto& path : rules.roles_claims)
    wanted.push_back({path, ClaimTexts::Words::kSplit, ClaimTexts::Others::kSkipped});
  RegisteredClaims registered;
  if (auto s = registered.parse(json, wanted); !s.ok()) return s;
  if (auto s = check_times(registered, rules, now); !s.ok()) return s;
  if (auto s = check_names(registered, rules); !s.ok()) return s;
  JwtClaims out;
  if (registered.subject.texts.size() == 1) out.subject = registered.subject.texts[0];
  if (wanted[0].texts.size() != 1 || !is_name(wanted[0].texts[0]))
    return refused_token("the token names no tenant: expected one name in the claim that auth.jwt.tenant_claim names");
  out.tenant = wanted[0].texts[0];
  const auto& models = wanted[1].texts;
  if (models.size() > kMostTokenModels || !std::all_of(models.begin(), models.end(), is_name))
    return refused_token("the token names more than 64 models, or one that is empty or longer than 256 bytes");
  out.models = std::move(wanted[1].texts), out.has_models = wanted[1].found;
  out.limits = rules.limits;
  if (auto s = set_limits(out.limits, std::span(wanted).subspan(2, limits.size())); !s.ok()) return s;
  for (size_t i = 2 + limits.size(); i < wanted.size(); ++i)
    for (const auto& role : wanted[i].texts)
      if (role.starts_with(rules.role_prefix)) out.roles.push_back(role.substr(rules.role_prefix.size()));
  out.expires = base::WallTime(std::chrono::seconds(std::min<int64_t>(*registered.expires, INT64_MAX / 2'000'000'000)));
  return out;
}

// One of the candidates has signed it.
base::Status check_signature(const JwtParts& parts, const JwtHeader& header, const KeySet& keys, JwtCheck& check) {
  auto signature = base::base64url_decode(parts.signature, base::Base64Url::kStrict);
  if (!signature) return refused_token("the token's signature is not in base64url");
  const SignatureAlgorithm& algorithm = *find_algorithm(header.algorithm);
  auto candidates = keys.candidates(algorithm, header.key_id);
  if (candidates.empty()) {
    check.unknown_key = header.key_id.empty() || !keys.knows(header.key_id);
    return refused_token("the token's key (kid, alg) is none of those that this server takes tokens of");
  }
  for (const auto* key : candidates) {
    check.cost += key->cost();
    if (key->verifies(algorithm, parts.signed_text, *signature)) {
      check.key = key->fingerprint();
      return {};
    }
  }
  return refused_token("the token's signature is not right");
}

}  // namespace

JwtCheck verify_jwt(std::string_view token, const KeySet& keys, const JwtRules& rules, base::WallTime now) {
  JwtCheck check;
  auto fail = [&](base::Status why) {
    check.claims = std::move(why);
    return std::move(check);
  };
  if (token.size() > kMostTokenBytes) return fail(refused_token("the token is longer than 16 KiB"));
  auto parts = split_token(token);
  if (!parts) return fail(refused_token("the token does not have the three parts of a JSON Web Token"));
  auto header_json = base::base64url_decode(parts->header, base::Base64Url::kStrict);
  auto claims_json = base::base64url_decode(parts->claims, base::Base64Url::kStrict);
  if (!header_json || !claims_json) return fail(refused_token("the token is not in base64url"));
  auto header = JwtHeader::parse(*header_json);
  if (!header) return fail(header.error());
  if (auto s = check_header(*header); !s.ok()) return fail(std::move(s));
  auto claims = read_claims(*claims_json, rules, now);
  if (!claims) return fail(claims.error());
  if (auto s = check_signature(*parts, *header, keys, check); !s.ok()) return fail(std::move(s));
  check.claims = std::move(claims);
  return check;
}

}  // namespace weir::auth
