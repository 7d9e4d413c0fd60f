// ShardAccess: what asks who a request is from, on one shard: keys, tokens, certificates. The first shard also loads
// the keys that tokens are signed with, where a URL has them.
//
// Made before its shard starts, used on its thread, destroyed after the shard has been joined.
#pragma once

#include <memory>
#include <optional>

#include "app/access_control.h"
#include "auth/authenticator.h"
#include "auth/certificate_rules.h"
#include "auth/jwks_source.h"
#include "auth/jwt_verifier.h"
#include "net/shard.h"
#include "wire/fetcher.h"

namespace weir::app {

class ShardAccess {
 public:
  // Both are borrowed; `control` is open.
  ShardAccess(net::Shard& shard, AccessControl& control);
  ~ShardAccess();

  // Null where everybody may do everything.
  auth::Authenticator* authenticator() { return authenticator_.get(); }

 private:
  void load_token_keys(net::Shard& shard);

  AccessControl& control_;
  std::optional<auth::JwtVerifier> tokens_;
  std::optional<auth::KnownCertificates> certificates_;
  std::unique_ptr<auth::Authenticator> authenticator_;
  std::unique_ptr<wire::Fetcher> fetcher_;
  std::unique_ptr<auth::JwksSource> source_;
};

}  // namespace weir::app
