#include "net/fetch_policy.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace weir::net {
namespace {

using base::invalid;

// IANA IPv4 and IPv6 Special-Purpose Address Registries, multicast, and class E.
constexpr const char* kNotPublic[] = {
    "0.0.0.0/8",        // this network
    "10.0.0.0/8",       // private
    "100.64.0.0/10",    // shared between a provider and its customers; Alibaba's metadata
    "127.0.0.0/8",      // loopback
    "168.63.129.16",    // Azure's platform, on an address that looks public
    "169.254.0.0/16",   // link-local; metadata of most clouds
    "172.16.0.0/12",    // private
    "192.0.0.0/24",     // protocol assignments; Oracle's metadata
    "192.0.2.0/24",     // documentation
    "192.88.99.0/24",   // 6to4 relays
    "192.168.0.0/16",   // private
    "198.18.0.0/15",    // benchmarks
    "198.51.100.0/24",  // documentation
    "203.0.113.0/24",   // documentation
    "224.0.0.0/4",      // multicast
    "240.0.0.0/4",      // reserved, broadcast
    "2001::/23",        // protocol assignments, Teredo, benchmarks, ORCHID
    "2001:db8::/32",    // documentation
    "2002::/16",        // 6to4
    "3fff::/20",        // documentation
};

bool below(std::string_view host, std::string_view name) {
  return host.size() > name.size() + 1 && host.ends_with(name) && host[host.size() - name.size() - 1] == '.';
}

}  // namespace

base::IpAddress FetchPolicy::address_of(const Endpoint& endpoint) {
  base::IpAddress out{};
  if (endpoint.storage.ss_family == AF_INET6) {
    std::memcpy(out.data(), &reinterpret_cast<const sockaddr_in6&>(endpoint.storage).sin6_addr, out.size());
  } else {
    out[10] = out[11] = 0xff;
    std::memcpy(out.data() + 12, &reinterpret_cast<const sockaddr_in&>(endpoint.storage).sin_addr, 4);
  }
  return out;
}

base::Result<FetchPolicy::Host> FetchPolicy::parse_entry(std::string_view text) {
  Host out;
  std::string rest(text);
  if (text == "*" || text.starts_with("*:")) {
    out.match = Host::Match::kAny;
    rest.replace(0, 1, "any");
  } else if (text.starts_with("*.")) {
    out.match = Host::Match::kBelow;
    rest.erase(0, 2);
  }
  auto host = parse_host(rest);
  if (!host) return invalid("'" + std::string(text) + "' is no host: " + host.error().text);
  out.name = std::move(host->host);
  out.port = host->port;
  return out;
}

std::vector<base::Network> FetchPolicy::not_public() {
  std::vector<base::Network> out;
  for (const char* text : kNotPublic) out.push_back(base::parse_network(text).value());
  return out;
}

base::Result<FetchPolicy> FetchPolicy::make(const wire::FetchRules& rules) {
  FetchPolicy out;
  out.denied_ = not_public();
  for (const auto& scheme : rules.schemes) {
    if (scheme != "http" && scheme != "https") return invalid("'" + scheme + "' is neither http nor https");
    (scheme == "http" ? out.http_ : out.https_) = true;
  }
  for (const auto& text : rules.hosts) {
    auto host = parse_entry(text);
    if (!host) return std::move(host).error();
    out.hosts_.push_back(std::move(*host));
  }
  for (const auto& text : rules.networks) {
    auto network = base::parse_network(text);
    if (!network) return std::move(network).error();
    out.granted_.push_back(*network);
  }
  return out;
}

base::Status FetchPolicy::check(const Url& url) const {
  using base::Code;
  if (url.scheme == Url::Scheme::kHttps ? !https_ : !http_)
    return base::failure(Code::kPermissionDenied, "references of this scheme are off");
  auto matches = [&](const Host& host) {
    if (url.port != (host.port ? host.port : url.default_port())) return false;
    if (host.match == Host::Match::kAny) return true;
    return host.match == Host::Match::kExact ? url.host == host.name : below(url.host, host.name);
  };
  if (std::any_of(hosts_.begin(), hosts_.end(), matches)) return {};
  return base::failure(Code::kPermissionDenied, "its host and port are not among those that are allowed");
}

bool FetchPolicy::allows(const Endpoint& endpoint) const {
  if (endpoint.transport() != Transport::kTcp) return false;
  const base::IpAddress address = address_of(endpoint);
  auto in = [&](const base::Network& network) { return network.has(address); };
  if (std::any_of(granted_.begin(), granted_.end(), in)) return true;
  static const base::Network kIpv4 = base::parse_network("::ffff:0:0/96").value(),
                             kGlobal = base::parse_network("2000::/3").value();
  return (in(kIpv4) || in(kGlobal)) && std::none_of(denied_.begin(), denied_.end(), in);
}

}  // namespace weir::net
