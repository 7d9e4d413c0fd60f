// JSON Web Tokens (RFC 7519) in the compact form of a JSON Web Signature (RFC 7515 §3.1), checked as RFC 8725 asks.
//
//   token  = base64url(header) "." base64url(claims) "." base64url(signature)          at most kMostTokenBytes
//   header = {"alg": "RS256", "kid": "…", "typ": "JWT"}; crit is refused, since no extension is understood; keys and
//            addresses of keys in the header (jwk, jku, x5c, x5u) are ignored
//   claims = {"iss", "aud", "sub", "exp", "nbf", "iat", …}; exp is required
//
// The claims are compared with the rules before the signature is checked, since that costs the most; nothing of the
// claims is believed before. Errors name no byte of the token and no value of a rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "auth/jwks.h"
#include "base/env.h"
#include "base/status.h"
#include "base/usage_limiter.h"

namespace weir::auth {

inline constexpr size_t kMostTokenBytes = size_t(16) << 10;
inline constexpr size_t kMostTokenModels = 64;  // patterns of one token
inline constexpr size_t kMostTokenName = 256;   // of a tenant, and of a pattern

// The rules of what tokens must say, and where they say who is meant. A path names a claim, or a member of a claim that
// is an object
// ("realm_access.roles"); names may have dots themselves ("kubernetes.io.namespace").
struct JwtRules {
  std::string issuer;                  // empty: any that signs with the keys
  std::vector<std::string> audiences;  // one of them; "*": any
  std::string tenant_claim = "sub";
  std::vector<std::string> roles_claims = {"scope", "scp", "roles", "permissions", "realm_access.roles"};
  std::string models_claim = "models";
  std::string limits_claim = "limits";  // an object whose members are limits (auth/usage_limits.h)
  base::UsageLimits limits;             // where the claim does not say another
  std::string role_prefix = "weir:";    // in front of a role, so that other services' roles are none of ours
  base::Duration leeway = std::chrono::seconds(60);
};

// The claims of a token that has been verified.
struct JwtClaims {
  std::string subject;              // sub; empty where there is none
  std::string tenant;               // not empty
  std::vector<std::string> roles;   // that began with the prefix, without it
  std::vector<std::string> models;  // patterns, kMostTokenModels at most
  bool has_models = false;          // the claim is there, and may be empty: no model
  base::UsageLimits limits;         // the rules' own, or what the token says in their place
  base::WallTime expires{};         // exp, without leeway
};

// The result of verify_jwt(), beside its claims.
struct JwtCheck {
  base::Result<JwtClaims> claims = base::failure(base::Code::kUnauthenticated, {});
  bool unknown_key = false;  // the token may be signed with a key that is not in the set (yet)
  uint32_t cost = 0;         // of the signatures that were checked: VerificationKey::cost()
  std::string key;           // VerificationKey::fingerprint() of the key that has signed it
};

// Errors of the claims: UNAUTHENTICATED, with what is wrong with the token and the setting that it is held against.
JwtCheck verify_jwt(std::string_view token, const KeySet& keys, const JwtRules& rules, base::WallTime now);

}  // namespace weir::auth
