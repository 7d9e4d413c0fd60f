#include "wire/access.h"

#include <algorithm>
#include <charconv>

#include "wire/limits.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kMostQuoted = 128;  // of a peer's text, in an error

// The fields by which browsers mark their requests; data() is null for one that is not there.
struct BrowserMarks {
  std::string_view origin, site, agent, referer;

  // Scripts cannot remove these from what a page asks for, but some browsers let them change the last.
  bool browser() const { return origin.data() || site.data() || referer.data() || agent.starts_with("Mozilla/"); }
};

BrowserMarks marks_of(const Fields& fields) {
  BrowserMarks marks;
  for (size_t i = 0; i < fields.size(); ++i) {
    auto [name, value] = fields[i];
    switch (name.size()) {
      case 6:
        if (name == "origin") marks.origin = value;
        break;
      case 7:
        if (name == "referer") marks.referer = value;
        break;
      case 10:
        if (name == "user-agent") marks.agent = value;
        break;
      case 14:
        if (name == "sec-fetch-site") marks.site = value;
        break;
      default: break;
    }
  }
  return marks;
}

std::string in_quotes(std::string_view text) { return "'" + std::string(text.substr(0, kMostQuoted)) + "'"; }

// "a.example:8080" → "a.example", "8080"; "[::1]:80" → "[::1]", "80".
std::pair<std::string_view, std::string_view> host_and_port(std::string_view authority) {
  size_t colon = authority.rfind(':');
  if (colon == authority.npos || authority.find(']', colon) != authority.npos) return {authority, {}};
  return {authority.substr(0, colon), authority.substr(colon + 1)};
}

// The host without the dot that makes a name absolute.
std::string_view without_dot(std::string_view host) {
  if (host.size() > 1 && host.ends_with('.')) host.remove_suffix(1);
  return host;
}

// As browsers write it: four decimal numbers, the first of them 127.
bool is_loopback_ipv4(std::string_view host) {
  int parts = 0;
  while (parts < 4) {
    unsigned number = 256;
    auto [end, error] = std::from_chars(host.data(), host.data() + host.size(), number);
    if (error != std::errc() || number > 255 || (parts == 0 && number != 127)) return false;
    host.remove_prefix(size_t(end - host.data()));
    if (++parts == 4) return host.empty();
    if (!host.starts_with('.')) return false;
    host.remove_prefix(1);
  }
  return false;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && same_text(text.substr(text.size() - end.size()), end);
}

// The two parts of "https://a.example:8443/path": scheme and authority. Empty for what has none ("null").
std::pair<std::string_view, std::string_view> split_origin(std::string_view url) {
  size_t colon = url.find("://");
  if (colon == url.npos) return {};
  std::string_view authority = url.substr(colon + 3);
  return {url.substr(0, colon), authority.substr(0, authority.find('/'))};
}

// An authority in which the scheme's usual port is left out.
bool same_authority(std::string_view scheme, std::string_view a, std::string_view b) {
  auto usual = [&](std::string_view port) {
    return port.empty() || (same_text(scheme, "http") && port == "80") || (same_text(scheme, "https") && port == "443");
  };
  auto [host_a, port_a] = host_and_port(a);
  auto [host_b, port_b] = host_and_port(b);
  return same_text(host_a, host_b) && (port_a == port_b || (usual(port_a) && usual(port_b)));
}

std::optional<Denial> denied(std::string_view reason, std::string text) {
  return Denial{base::failure(base::Code::kPermissionDenied, std::move(text)), reason};
}

// Checks a request without Origin and Sec-Fetch-Site: old browsers do not send the latter, nor does any browser over
// cleartext to a name that is not loopback. The Referer then tells which page it comes from, unless the page hides
// that: in that case a browser's GET that would change something is refused.
std::optional<Denial> check_unmarked(const Request& request, const BrowserMarks& marks, const Cors& cors,
                                     Permission permission) {
  if (marks.referer.data()) {
    auto [scheme, authority] = split_origin(marks.referer);
    std::string origin = std::string(scheme) + "://" + std::string(authority);
    if (is_own_origin(origin, request) || cors.lists(origin)) return {};
    return denied(reason::kForeignPage,
                  "pages of origin " + in_quotes(origin) + " may not call this: list the origin in cors.origins");
  }
  bool get = request.method == "GET" || request.method == "HEAD";
  if (!get || permission != Permission::kAdmin || !marks.agent.starts_with("Mozilla/")) return {};
  return denied(reason::kForeignPage,
                "this browser does not say which page asks, and this would change the server: use POST, or https, or a "
                "client that is no browser");
}

std::optional<Denial> check_page(const Request& request, const BrowserMarks& marks, const Cors& cors,
                                 Permission permission) {
  if (!marks.origin.data() && !marks.site.data()) return check_unmarked(request, marks, cors, permission);
  if (marks.origin.data()) {
    if (cors.lists(marks.origin)) return {};
    if (!is_own_origin(marks.origin, request))
      return denied(reason::kForeignPage, "pages of origin " + in_quotes(marks.origin) +
                                              " may not call this: list the origin in cors.origins");
  }
  if (!marks.site.data() || marks.site == "same-origin" || marks.site == "none") return {};
  return denied(reason::kForeignPage, "pages of other origins may not call this (sec-fetch-site: " +
                                          std::string(marks.site.substr(0, kMostQuoted)) +
                                          "), unless their request names an origin that cors.origins lists");
}

}  // namespace

std::string_view name(Permission permission) {
  switch (permission) {
    case Permission::kHealth: return "health";
    case Permission::kMetrics: return "metrics";
    case Permission::kObserve: return "observe";
    case Permission::kRead: return "read";
    case Permission::kInfer: return "infer";
    default: return "admin";
  }
}

bool Cors::lists(std::string_view origin) const {
  return std::any_of(origins.begin(), origins.end(), [&](const auto& o) { return o == "*" || o == origin; });
}

bool TrustedHosts::lists(std::string_view authority) const {
  std::string_view host = without_dot(host_and_port(authority).first);
  return std::any_of(names.begin(), names.end(), [&](std::string_view entry) {
    if (entry == "*") return true;
    auto [wanted, port] = host_and_port(entry);
    if (!port.empty() && port != host_and_port(authority).second) return false;
    return wanted.starts_with("*.") ? ends_with(host, wanted.substr(1)) : same_text(host, wanted);
  });
}

bool is_loopback_name(std::string_view authority) {
  std::string_view host = without_dot(host_and_port(authority).first);
  return same_text(host, "localhost") || ends_with(host, ".localhost") || host == "[::1]" || is_loopback_ipv4(host);
}

// Behind a proxy that ends TLS an https page calls what is cleartext here; the other way round it is another origin.
bool is_own_origin(std::string_view origin, const Request& request) {
  auto [scheme, authority] = split_origin(origin);
  if (authority.empty()) return false;
  bool tls = request.peer && request.peer->security == Security::kTls;
  if (tls && !same_text(scheme, "https")) return false;
  return same_authority(scheme, authority, request.authority);
}

std::optional<Denial> AccessRules::check(const Request& request, Permission permission) const {
  bool loopback = request.peer && request.peer->network == Network::kLoopback;
  bool trusted_only = loopback || !hosts_.names.empty();
  if (!only_reads(permission) || trusted_only) {
    BrowserMarks marks = marks_of(request.fields);
    if (marks.browser()) {
      bool named = (loopback && is_loopback_name(request.authority)) || hosts_.lists(request.authority);
      if (trusted_only && !named)
        return denied(reason::kUntrustedHost, "browsers may not ask for host " + in_quotes(request.authority) +
                                                  " here: list it in http.hosts if it is this server's");
      if (!only_reads(permission))
        if (auto denial = check_page(request, marks, cors_, permission)) return denial;
    }
  }
  if (permission == Permission::kAdmin && request.peer && request.peer->admin == AdminMethods::kElsewhere)
    return denied(reason::kAdminListener, "admin methods are served at admin.listen");
  return {};
}

}  // namespace weir::wire
