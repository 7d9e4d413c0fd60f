// A strict parser of http URLs that clients give us. It refuses all that parsers read in different ways, so that the
// host that was checked is the host to which a connection is made.
//
//   URL  = ("http" | "https") "://" host [ ":" port ] [ "/" path ] [ "?" query ] [ "#" fragment ]      RFC 3986, less
//   host = name | IPv4 as four decimal numbers | "[" IPv6 "]"
//
// Refused: user names and passwords, backslashes, spaces, control and non-ASCII characters, percent signs in hosts,
// zones of IPv6 addresses, and host names that some parsers take for an address (127.1, 0x7f.1, 2130706433).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weir::net {

struct Url {
  enum class Scheme : uint8_t { kHttp, kHttps } scheme = Scheme::kHttp;
  std::string host;  // lower-case; an address in the one form that inet_ntop gives, without brackets
  enum class Host : uint8_t { kName, kAddress } kind = Host::kName;
  uint16_t port = 0;   // the scheme's default where none is written
  std::string target;  // path and query, at least "/"

  uint16_t default_port() const { return scheme == Scheme::kHttps ? 443 : 80; }
  std::string authority() const;  // as the Host field has it
};

constexpr size_t kLongestUrl = 4096;

// Errors: INVALID_ARGUMENT with what is wrong.
base::Result<Url> parse_url(std::string_view text);

// Parses "name", "1.2.3.4" or "[::1]", each with or without ":port", as strictly as a URL. Without a port it is 0.
struct HostPort {
  std::string host;
  Url::Host kind = Url::Host::kName;
  uint16_t port = 0;
};
base::Result<HostPort> parse_host(std::string_view text);

}  // namespace weir::net
