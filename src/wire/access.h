// AccessRules: which requests may reach a route, decided before the route's service sees them, for every protocol
// alike.
//
// Each route declares a Permission. Three rules use it, in this order:
//   1. A browser's request that came over loopback must be for a loopback name or one of http.hosts: a page whose own
//      name was made to lead here (DNS rebinding) counts as the same origin otherwise. Holds for every route.
//   2. What is more than reading is refused to web pages of other origins, GET included: by Sec-Fetch-Site (Fetch
//      Metadata, "Sec-Fetch-Site") and by Origin (RFC 6454, Fetch standard §3.2), unless cors.origins lists the origin.
//   3. Admin methods are refused by listeners that do not serve them (PeerInfo::admin).
// Clients that are no browsers send none of the fields that these rules read. Pure; one per Router.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "wire/exchange.h"

namespace weir::wire {

// The permission that a route asks of its caller. The default of a route is the strictest.
enum class Permission : uint8_t {
  kHealth,   // says whether the server is well, and nothing else
  kMetrics,  // reads metrics
  kObserve,  // sees the requests of others and the log: who asks for what, from where
  kRead,     // reads anything else: models, settings
  kInfer,    // runs a model, or opens, changes or ends a session of the caller's
  kAdmin,    // changes what is served, or the settings of the server
};
std::string_view name(Permission permission);  // "health", "metrics", "observe", "read", "infer", "admin"
// Whether what it allows changes nothing and runs no model.
constexpr bool only_reads(Permission permission) { return permission <= Permission::kRead; }

struct Cors {
  std::vector<std::string> origins;  // "*" or exact origins; empty = CORS is off

  bool lists(std::string_view origin) const;
};

// Names under which browsers may ask for this server, beside the loopback ones: "weir.example", "weir.example:8443",
// "*.example" (any name below it), "*". Without a port: on any.
struct TrustedHosts {
  std::vector<std::string> names;

  bool lists(std::string_view authority) const;
};

// Why a request does not reach its route.
struct Denial {
  base::Status status;      // PERMISSION_DENIED; the text names the setting
  std::string_view reason;  // for the request's record
};

class AccessRules {
 public:
  AccessRules(Cors cors, TrustedHosts hosts) : cors_(std::move(cors)), hosts_(std::move(hosts)) {}

  std::optional<Denial> check(const Request& request, Permission permission) const;
  const Cors& cors() const { return cors_; }

 private:
  Cors cors_;
  TrustedHosts hosts_;
};

// Whether `authority` names this machine for every browser: localhost and names below it (RFC 6761 §6.3), 127.0.0.0/8,
// [::1]; with or without a port.
bool is_loopback_name(std::string_view authority);

// Whether a page of `origin` ("https://a.example:8443") is a page of the host that the request is for. "null" never is.
bool is_own_origin(std::string_view origin, const Request& request);

}  // namespace weir::wire
