// Any bytes as a URL that a client chose: it is refused, or what is checked is what will be dialled: one spelling, a
// host that no resolver takes for an address, nothing that could end a line of the request.
#include <arpa/inet.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "net/url.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

bool plain(std::string_view text) {
  for (char c : text)
    if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f || c == '\\') return false;
  return true;
}

void check_host(const std::string& host, net::Url::Host kind) {
  in_addr v4;
  in6_addr v6;
  require(!host.empty() && plain(host) && host.find_first_of("/?#@%[]") == host.npos, "a host is a plain word");
  if (kind == net::Url::Host::kAddress)
    require(inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1,
            "an address is one");
  else
    require(inet_aton(host.c_str(), &v4) == 0 && inet_pton(AF_INET6, host.c_str(), &v6) != 1,
            "no resolver takes a name for an address");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto host = net::parse_host(text)) check_host(host->host, host->kind);
  auto url = net::parse_url(text);
  if (!url) return 0;
  require(size <= net::kLongestUrl, "a URL is not long");
  check_host(url->host, url->kind);
  require(url->target.starts_with('/') && plain(url->target) && url->target.find('#') == url->target.npos,
          "a target is a plain path");
  require(url->port != 0, "there is a port");
  std::string again = url->scheme == net::Url::Scheme::kHttps ? "https://" : "http://";
  again += url->authority() + url->target;
  auto same = net::parse_url(again);
  require(bool(same), "its own spelling is taken");
  require(same->host == url->host && same->port == url->port && same->target == url->target &&
              same->scheme == url->scheme && same->kind == url->kind,
          "its own spelling is the same URL");
  auto host = net::parse_host(url->authority());
  require(host && host->host == url->host, "the Host field names the same host");
  return 0;
}
