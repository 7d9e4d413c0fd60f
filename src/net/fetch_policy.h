// FetchPolicy: which URLs may be fetched on behalf of a client. It keeps clients from reaching through this server what
// they cannot reach themselves (server-side request forgery, SSRF): the host must be listed, and its addresses must be
// public or in a listed network.
//
// Public addresses are IPv4 and 2000::/3, except those that IANA's special-purpose registries set apart (loopback,
// private, shared and link-local networks, multicast, documentation, benchmarks, transition mechanisms with an IPv4
// address inside: 6to4, Teredo, NAT64; an IPv4-mapped address counts as its IPv4 address) and the metadata addresses of
// cloud providers. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/status.h"
#include "net/address.h"
#include "net/url.h"
#include "wire/fetcher.h"

namespace weir::net {

class FetchPolicy {
 public:
  // Errors: INVALID_ARGUMENT, naming the entry.
  static base::Result<FetchPolicy> make(const wire::FetchRules& rules);

  // Errors: PERMISSION_DENIED.
  base::Status check(const Url& url) const;
  // Whether a connection may go there; of a name all addresses have to be of that kind.
  bool allows(const Endpoint& endpoint) const;
  bool off() const { return !http_ && !https_; }

 private:
  struct Host {
    enum class Match : uint8_t { kExact, kBelow, kAny } match = Match::kExact;
    std::string name;
    uint16_t port = 0;  // 0: the scheme's
  };
  static base::IpAddress address_of(const Endpoint& endpoint);
  static base::Result<Host> parse_entry(std::string_view text);
  static std::vector<base::Network> not_public();

  bool http_ = false, https_ = false;
  std::vector<Host> hosts_;
  std::vector<base::Network> granted_, denied_;
};

}  // namespace weir::net
