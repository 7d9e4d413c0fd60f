// Authenticator: says who asks, by keys, tokens and certificates, and whether that has the role for a route. One per
// shard, on its thread; the Keys behind it are all shards'.
//
// Roles and the permissions of routes (wire/access.h):
//   health → health     metrics → metrics, admin     read → infer, admin     infer → infer     admin → admin
//   observe → metrics, admin; of those who show no key, admin alone, at listeners that serve admin methods
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/grant.h"
#include "auth/keys.h"
#include "base/env.h"
#include "wire/authenticator.h"

namespace weir::auth {

// Tokens that are signed, and so need not be listed: JSON Web Tokens. One per shard, on its thread.
class TokenVerifier {
 public:
  // `client`: PeerInfo::host(). Errors: UNAUTHENTICATED, RESOURCE_EXHAUSTED, UNAVAILABLE; the text goes to the client.
  virtual base::Result<IdentityRef> verify(std::string_view token, std::string_view client, base::Time now,
                                           base::WallTime wall) = 0;

 protected:
  ~TokenVerifier() = default;
};

// Says whom the certificates of peers stand for. One per shard, on its thread.
class CertificateIdentities {
 public:
  // `names`: PeerInfo::certificate_names. Null: these names stand for nobody in particular.
  virtual IdentityRef identity_of(const std::vector<std::string>& names) = 0;

 protected:
  ~CertificateIdentities() = default;
};

class Authenticator final : public wire::Authenticator {
 public:
  struct Sources {
    const Keys* keys = nullptr;
    TokenVerifier* tokens = nullptr;
    CertificateIdentities* certificates = nullptr;
    Limiters* limiters = nullptr;  // of tokens and certificates, for recall()
  };
  // `anonymous`: what those may do who show nothing. Where no source takes secrets, those that are shown are ignored:
  // many clients send one that means nothing.
  Authenticator(base::Env& env, Sources sources, wire::Roles anonymous);

  // Where there are a certificate and a key, the key counts: it is what the request itself says. Where everybody may
  // ask for health, a wrong key does no harm there.
  base::Result<wire::Caller> admit(const wire::Request& request, wire::Permission permission,
                                   std::string_view protocol) override;
  std::string name_of(const wire::Request& request) override;
  base::Status permit(const wire::Request& request, wire::Permission permission) override;

  // Writes who a request that was let in is from, as a text for recall(), which another process understands too: the
  // name of a key, or what a token or a certificate allowed. No secret. Empty: nobody in particular.
  std::string remember(const wire::Request& request);
  // Lets in a request that this caller has left, to be run when it is no longer there. A key must still be there, and
  // is worth what it is worth now; what a token or certificate allowed holds as it was. kCounted: it is no more request
  // than was counted when its caller asked. Errors: as of admit().
  enum class Recalled : uint8_t { kRequest, kCounted };
  base::Result<wire::Caller> recall(std::string_view remembered, wire::Permission permission, std::string_view protocol,
                                    Recalled as);
  base::Result<wire::Caller> recall(std::string_view remembered, wire::Permission permission,
                                    std::string_view protocol);

 private:
  base::Status nobody(wire::Permission permission, const wire::Request& request) const;
  base::Result<wire::Caller> admit_known(const wire::Request& request, wire::Permission permission,
                                         std::string_view protocol);
  base::Result<wire::Caller> let_in(IdentityRef identity, wire::Permission permission, std::string_view protocol,
                                    Recalled as = Recalled::kRequest);
  // Why a secret is no good, for the log.
  struct Rejection {
    enum class Kind : uint8_t { kMalformed, kUnknown, kExpired, kToken };
    Kind kind = Kind::kMalformed;
    std::string detail;  // kExpired: the key's name; kToken: what is wrong with it
  };
  base::Result<IdentityRef> identify(const wire::Request& request, Rejection& why);
  base::Result<IdentityRef> by_secret(std::string_view secret, const wire::Request& request, Rejection& why);
  const KeyTable& table();
  bool takes_secrets() const { return sources_.keys || sources_.tokens; }
  void log_refused(const Rejection& why, const wire::Request& request);

  base::Env& env_;
  const Sources sources_;
  const IdentityRef anonymous_;
  std::shared_ptr<const KeyTable> table_;
  uint64_t version_ = 0;  // of table_
  // Refusals of each kind are logged as a count, once in a while.
  struct RefusalCount {
    uint64_t count = 0;
    base::Time log_next = base::Time::min();
  };
  std::array<RefusalCount, 4> refused_;
};

}  // namespace weir::auth
