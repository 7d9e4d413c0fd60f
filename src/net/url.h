// Http URLs that somebody else chose, read strictly: what is checked is what is dialled.
//
//   URL  = ("http" | "https") "://" host [ ":" port ] [ "/" path ] [ "?" query ] [ "#" fragment ]      RFC 3986, less
//   host = name | IPv4 as four decimal numbers | "[" IPv6 "]"
//
// Refused: user names and passwords, backslashes, spaces, control and non-ASCII characters, per cent signs in hosts,
// zones, and host names that some parsers take for an address (127.1, 0x7f.1, 2130706433).
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
  uint16_t port = 0;   // as written, or the scheme's
  std::string target;  // path and query, at least "/"

  uint16_t default_port() const { return scheme == Scheme::kHttps ? 443 : 80; }
  std::string authority() const;  // as the Host field has it
};

constexpr size_t kLongestUrl = 4096;

// Errors: INVALID_ARGUMENT with what is wrong.
base::Result<Url> parse_url(std::string_view text);

// "name", "1.2.3.4" or "[::1]", each with ":port" or without: then 0. The same strictness.
struct HostPort {
  std::string host;
  Url::Host kind = Url::Host::kName;
  uint16_t port = 0;
};
base::Result<HostPort> parse_host(std::string_view text);

}  // namespace weir::net
