// CertificateRules: who a client certificate stands for, by the names in it.
//
//   auth:
//     certificates:
//       "URI:spiffe://prod.example/ns/*/sa/chat": {tenant: chat, roles: [infer], models: ["chat*"]}
//       "DNS:*.ops.example": {roles: [admin, metrics]}
//       "CN:batch": {limits: {requests_per_second: 20}}
//
// A pattern has the kind of the name in front (URI, DNS, email: subject alternative names, RFC 5280 §4.2.1.6; CN: the
// subject's common name). `*` stands for one part of the name or a piece of it, not for its separator: `/` in a URI,
// `.` in a DNS name, `.` and `@` in an address. The first rule in the file's order that one of the names matches is
// used. Without a tenant that is the name that matched; without roles it is infer; without models all of them. Limits
// are those of the tenant, over all of its certificates (auth/usage_limits.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/authenticator.h"
#include "auth/grant.h"
#include "base/setting.h"
#include "base/sip_hash.h"
#include "base/yaml.h"
#include "wire/identity.h"

namespace weir::auth {

struct CertificateRule {
  std::string pattern;
  std::string tenant;  // empty: the name that matched
  wire::Roles roles;
  std::optional<std::vector<std::string>> models;  // patterns; nothing: all
  base::UsageLimits limits{};
};

// True if the pattern matches the whole name.
bool matches_certificate_name(std::string_view pattern, std::string_view name);

class CertificateRules {
 public:
  static constexpr size_t kMostRules = 1024;

  void read(const base::Yaml& node, base::Complaints& complaints);
  std::string show() const;
  bool empty() const { return rules_.empty(); }
  // The grant of the first rule that matches one of the names (PeerInfo::certificate_names); nothing if none matches.
  std::optional<Grant> find(const std::vector<std::string>& names) const;

 private:
  std::vector<CertificateRule> rules_;
};

// The Identities of certificates, by CertificateRules. One per shard, on its thread; `limiters` may be all shards'.
// Both are borrowed.
class KnownCertificates final : public CertificateIdentities {
 public:
  static constexpr size_t kMostCached = 1024;

  KnownCertificates(const CertificateRules& rules, Limiters& limiters) : rules_(rules), limiters_(limiters) {}
  IdentityRef identity_of(const std::vector<std::string>& names) override;

 private:
  const CertificateRules& rules_;
  Limiters& limiters_;
  base::PeerMap<std::string, IdentityRef> known_{0, base::KeyedHash(base::process_key())};  // by all names
};

// The row auth.certificates, which borrows `rules`.
base::Setting certificates_setting(CertificateRules& rules);

}  // namespace weir::auth
