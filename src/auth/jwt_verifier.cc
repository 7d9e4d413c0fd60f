#include "auth/jwt_verifier.h"

#include <openssl/sha.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/encoding.h"

namespace weir::auth {
namespace {

std::string token_digest(std::string_view token) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

base::Status too_many_failures(base::Duration wait) {
  return base::try_again(base::Code::kResourceExhausted,
                         "too many tokens of this client had a wrong signature: try again later",
                         std::chrono::ceil<std::chrono::seconds>(wait));
}

}  // namespace

Grant grant_of(const JwtClaims& claims, const JwtSettings& settings) {
  Grant grant;
  grant.name = "jwt:" + (claims.subject.empty() ? claims.tenant : base::presentable(claims.subject, kMostTokenName));
  grant.tenant = settings.tenant_prefix + claims.tenant;
  for (const auto& word : claims.roles)
    if (auto role = parse_role(word)) grant.roles.add(*role);
  if (grant.roles.none())
    for (const auto& word : settings.default_roles) grant.roles.add(parse_role(word).value());
  if (claims.has_models) grant.models = claims.models;
  grant.limits = claims.limits, grant.limits_of = Grant::LimitsOf::kTenant;
  grant.expires = claims.expires + settings.rules.leeway;
  return grant;
}

JwtVerifier::JwtVerifier(const JwtSettings& settings, TokenKeys& keys, Limiters& limiters, FailureLimit& failures)
    : settings_(settings),
      shared_(keys),
      limiters_(limiters),
      failures_(failures),
      by_digest_(0, base::KeyedHash(base::process_key())) {}

// The version is read before the keys, so that keys that come in between are taken the next time.
void JwtVerifier::refresh() {
  const uint64_t version = shared_.version();
  if (version == version_) return;
  version_ = version;
  keys_ = shared_.keys();
  const auto& now = keys_->keys();
  for (auto at = known_.begin(); at != known_.end();) {
    auto next = std::next(at);
    if (std::none_of(now.begin(), now.end(), [&](const auto& key) { return key.fingerprint() == at->key; })) {
      at->identity->revoked.store(true, std::memory_order_relaxed);
      forget(at);
    }
    at = next;
  }
}

base::Result<IdentityRef> JwtVerifier::verify(std::string_view token, std::string_view client, base::Time now,
                                              base::WallTime wall) {
  if (token.size() > kMostTokenBytes)
    return base::failure(base::Code::kUnauthenticated, "the token is longer than 16 KiB");
  refresh();
  std::string digest = token_digest(token);
  auto found = by_digest_.find(std::string_view(digest));
  if (found == by_digest_.end()) return verify_new(token, client, now, wall, std::move(digest));
  auto at = found->second;
  if (wall >= at->identity->expires) {  // its signature was right, so its holder may be named
    auto expired = base::failure(base::Code::kUnauthenticated,
                                 "the token of '" + at->identity->name + "' has expired (exp): get a new one");
    forget(at);
    return expired;
  }
  known_.splice(known_.begin(), known_, at);
  return at->identity;
}

base::Result<IdentityRef> JwtVerifier::verify_new(std::string_view token, std::string_view client, base::Time now,
                                                  base::WallTime wall, std::string digest) {
  if (!keys_)
    return base::try_again(base::Code::kUnavailable, "the keys that tokens are signed with are not loaded yet");
  if (auto wait = failures_.wait(client, now); wait.count() > 0) return too_many_failures(wait);
  JwtCheck check = verify_jwt(token, *keys_, settings_.rules, wall);
  if (check.unknown_key) shared_.missing();
  if (!check.claims) {
    failures_.count(client, now, check.cost);
    return check.claims.error();
  }
  IdentityRef identity = make_identity(grant_of(*check.claims, settings_), limiters_);
  keep({std::move(digest), std::move(check.key), identity});
  return identity;
}

void JwtVerifier::keep(Known known) {
  if (known_.size() >= kMostCached) forget(std::prev(known_.end()));
  known_.push_front(std::move(known));
  by_digest_.emplace(known_.front().digest, known_.begin());
}

void JwtVerifier::forget(KnownList::iterator at) {
  by_digest_.erase(at->digest);
  known_.erase(at);
}

}  // namespace weir::auth
