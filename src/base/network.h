// IP addresses and networks, as text and as bits. No sockets.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::base {

// In network order; IPv4 as ::ffff:a.b.c.d (RFC 4291 §2.5.5.2).
using IpAddress = std::array<uint8_t, 16>;

// "192.0.2.1", "2001:db8::1"; without a zone, a port or brackets.
std::optional<IpAddress> parse_ip(std::string_view text);
bool is_ipv4(const IpAddress& address);
std::string ip_text(const IpAddress& address);  // IPv4 in its dotted form

struct Network {
  IpAddress prefix{};
  unsigned bits = 0;  // of the prefix that count, of 128
  bool has(const IpAddress& address) const;
};
// "10.0.0.0/8", "2001:db8::/32", or one address. Errors: INVALID_ARGUMENT, naming the text.
Result<Network> parse_network(std::string_view text);

// A list of networks, and whether peers of unix sockets belong to it.
class NetworkList {
 public:
  // Networks as parse_network() takes them, and "unix". Errors: INVALID_ARGUMENT, naming the entry.
  static Result<NetworkList> parse(const std::vector<std::string>& entries);
  bool has(const IpAddress& address) const;
  bool has_unix() const { return unix_; }
  // True if it has that peer, named as a connection does: "192.0.2.1:5000", "[2001:db8::1]:5000", "unix".
  bool has_peer(std::string_view peer) const;
  bool empty() const { return networks_.empty() && !unix_; }

 private:
  std::vector<Network> networks_;
  bool unix_ = false;
};

// The address in "192.0.2.1:5000", "[2001:db8::1]:5000", "[2001:db8::1]", "192.0.2.1" or "2001:db8::1"; nothing for
// any other text.
std::optional<IpAddress> ip_of(std::string_view peer);

// Returns the network that counts as one client: an IPv4 address, or the /64 network of an IPv6 address, since its
// owner has all of them: "192.0.2.1", "2001:db8:0:1::/64". For a peer without an address ("unix"): the peer itself.
std::string client_name(std::string_view peer);

}  // namespace weir::base
