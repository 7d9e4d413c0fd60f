// JwtVerifier: who a JSON Web Token stands for. A token is verified once, and then known by its SHA-256 until it
// expires or the key that has signed it is withdrawn; the last kMostCached are kept. Tokens with wrong signatures are
// limited for each client (auth/failure_limit.h). One per shard, on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "auth/authenticator.h"
#include "auth/failure_limit.h"
#include "auth/grant.h"
#include "auth/jwks.h"
#include "auth/jwt_settings.h"
#include "auth/token_keys.h"
#include "base/env.h"
#include "base/sip_hash.h"
#include "base/status.h"

namespace weir::auth {

class JwtVerifier final : public TokenVerifier {
 public:
  static constexpr size_t kMostCached = 4096;

  // All are borrowed. The limits of tokens are counted by tenant, in `limiters`; those, and `failures`, may be all
  // shards'.
  JwtVerifier(const JwtSettings& settings, TokenKeys& keys, Limiters& limiters, FailureLimit& failures);

  // Takes what the keys are now. Tokens that were verified with one that is not among them are forgotten, and their
  // Identities revoked. verify() does so, too; call it once in a while for what goes on without new tokens.
  void refresh();

  // Errors: UNAUTHENTICATED with what is wrong with the token; RESOURCE_EXHAUSTED where the client has shown too many
  // with a wrong signature; UNAVAILABLE before there are keys.
  base::Result<IdentityRef> verify(std::string_view token, std::string_view client, base::Time now,
                                   base::WallTime wall) override;
  size_t cached() const { return known_.size(); }

 private:
  struct Known {
    std::string digest;  // of the token
    std::string key;     // fingerprint
    IdentityRef identity;
  };
  using KnownList = std::list<Known>;

  base::Result<IdentityRef> verify_new(std::string_view token, std::string_view client, base::Time now,
                                       base::WallTime wall, std::string digest);
  void keep(Known known);
  void forget(KnownList::iterator at);

  const JwtSettings& settings_;
  TokenKeys& shared_;
  std::shared_ptr<const KeySet> keys_;  // null: none yet
  uint64_t version_ = 0;                // of keys_
  Limiters& limiters_;
  FailureLimit& failures_;
  KnownList known_;  // the one that was used last comes first
  base::PeerMap<std::string_view, KnownList::iterator> by_digest_;
};

// Returns what a token's claims allow. Roles that this server does not know are ignored; a token without any has the
// default ones.
Grant grant_of(const JwtClaims& claims, const JwtSettings& settings);

}  // namespace weir::auth
