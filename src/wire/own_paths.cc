#include "wire/own_paths.h"

#include <algorithm>
#include <vector>

namespace weir::wire {
namespace {

constexpr std::string_view kOwn[] = {"/grps",      "/v1",        "/v2",      "/v3",     "/openai",
                                     "/evergreen", "/metrics",   "/livez",   "/readyz", "/health",
                                     "/control",   "/graphpipe", "/console", "/docs",   "/openapi.json"};
constexpr std::string_view kRpc = "/grpc.";  // services of gRPC's own

}  // namespace

std::string_view own_path(std::string_view path) {
  for (std::string_view own : kOwn)
    if (path.starts_with(own) && (path.size() == own.size() || path[own.size()] == '/')) return own;
  return path.starts_with(kRpc) ? kRpc : std::string_view();
}

base::Setting beside_own_paths(base::Setting s, std::initializer_list<std::string_view> except) {
  auto check = [except = std::vector(except)](const base::Setting::Values& values) -> base::Status {
    for (const auto& v : values)
      if (auto own = own_path(v); !own.empty() && std::find(except.begin(), except.end(), own) == except.end())
        return base::invalid(std::string(own) + " is weir's own: expected another path than '" + v + "'");
    return {};
  };
  return base::setting::checked(std::move(s), std::move(check));
}

}  // namespace weir::wire
