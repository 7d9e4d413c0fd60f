#include "net/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

#include "wire/text.h"

namespace weir::net {
namespace {

using base::invalid;

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// RFC 3986 §2, and nothing of what parsers are known to disagree about.
bool clean(char c) { return c > ' ' && c < 0x7f && std::string_view("\\<>\"^`{|}").find(c) == std::string_view::npos; }

// RFC 1123 §2.1, and underscores, which are in use.
bool good_label(std::string_view label) {
  auto fits = [](char c) { return letter(c) || digit(c) || c == '-' || c == '_'; };
  return !label.empty() && label.size() <= 63 && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), fits);
}

// WHATWG URL §3.5: a last label of this form makes the host an IPv4 address, in whatever of its many spellings.
bool numeric(std::string_view label) {
  if (std::all_of(label.begin(), label.end(), digit)) return true;
  return label.size() >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X');
}

base::Status read_name(std::string_view text, HostPort& out) {
  in_addr v4{};
  char shown[INET_ADDRSTRLEN];
  out.host = wire::lowered(text);
  if (::inet_pton(AF_INET, out.host.c_str(), &v4) == 1) {  // four decimal numbers without leading zeros
    out.kind = Url::Host::kAddress;
    out.host = ::inet_ntop(AF_INET, &v4, shown, sizeof shown);
    return {};
  }
  if (text.empty() || text.size() > 253) return invalid("its host has 1 to 253 characters");
  std::string_view last;
  for (size_t at = 0; at <= text.size(); at += last.size() + 1) {
    last = text.substr(at, text.find('.', at) - at);
    if (!good_label(last)) return invalid("its host is no name and no address");
  }
  return numeric(last) ? invalid("its host is no address in its plain form") : base::Status{};
}

base::Status read_ipv6(std::string_view text, HostPort& out) {
  in6_addr v6{};
  char shown[INET6_ADDRSTRLEN];
  if (::inet_pton(AF_INET6, std::string(text).c_str(), &v6) != 1) return invalid("its host is no IPv6 address");
  out.kind = Url::Host::kAddress;
  out.host = ::inet_ntop(AF_INET6, &v6, shown, sizeof shown);
  return {};
}

}  // namespace

std::string Url::authority() const {
  std::string out = host.find(':') == host.npos ? host : '[' + host + ']';
  if (port != default_port()) out += ':' + std::to_string(port);
  return out;
}

base::Result<HostPort> parse_host(std::string_view text) {
  HostPort out;
  std::string_view host = text.substr(0, text.rfind(':')), port;
  bool bracketed = text.starts_with('[');
  if (bracketed) {
    size_t end = text.find(']');
    if (end == text.npos) return invalid("its host is no IPv6 address");
    host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    text.remove_prefix(host.size());
  }
  if (auto s = bracketed ? read_ipv6(host, out) : read_name(host, out); !s.ok()) return s;
  if (text.empty()) return out;
  port = text.substr(1);
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (text[0] != ':' || error != std::errc() || end != port.data() + port.size() || out.port == 0)
    return invalid("its port is to be 1 to 65535");
  return out;
}

base::Result<Url> parse_url(std::string_view text) {
  if (text.size() > kLongestUrl) return invalid("it is longer than " + std::to_string(kLongestUrl) + " bytes");
  if (!std::all_of(text.begin(), text.end(), clean)) return invalid("it has a character that URLs have not");
  Url url;
  std::string scheme = wire::lowered(text.substr(0, text.find(':')));
  if (scheme != "http" && scheme != "https") return invalid("its scheme is neither http nor https");
  url.scheme = scheme == "https" ? Url::Scheme::kHttps : Url::Scheme::kHttp;
  text.remove_prefix(scheme.size());
  if (!text.starts_with("://")) return invalid("it names no host");
  text.remove_prefix(3);
  size_t end = std::min(text.find_first_of("/?#"), text.size());
  std::string_view authority = text.substr(0, end), rest = text.substr(end);
  if (authority.find('@') != authority.npos) return invalid("it has a user name or password");
  auto host = parse_host(authority);
  if (!host) return std::move(host).error();
  url.host = std::move(host->host);
  url.kind = host->kind;
  url.port = host->port ? host->port : url.default_port();
  rest = rest.substr(0, rest.find('#'));
  url.target = (rest.starts_with('/') ? "" : "/") + std::string(rest);
  return url;
}

}  // namespace weir::net
