// Reach: what may be fetched on behalf of a client, so that it reaches nothing through us that it could not reach
// itself (SSRF): a list of hosts, and of their addresses only public ones.
//
// Public are IPv4 and 2000::/3 without what IANA's special-purpose registries set apart: loopback, private, shared and
// link-local networks, multicast, documentation, benchmarks, transition mechanisms with an IPv4 address inside (6to4,
// Teredo, NAT64; IPv4-mapped ones count as that IPv4 address); and without the addresses at which clouds have their
// metadata. Immutable; any thread.
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

class Reach {
 public:
  // Errors: INVALID_ARGUMENT, naming the entry.
  static base::Result<Reach> make(const wire::FetchRules& rules);

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
