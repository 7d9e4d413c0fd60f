#include "app/banner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>

#include "app/remote.h"
#include "app/version.h"
#include "base/log.h"

namespace weir::app {
namespace {

bool is_unix(const std::string& address) { return address.starts_with("unix:"); }

std::string url(const Config& config, const std::string& address) {
  return (is_unix(address) ? "" : config.tls.certificate.empty() ? "http://" : "https://") + address;
}

std::string urls(const Config& config, const std::vector<std::string>& addresses) {
  std::string out;
  for (const auto& address : addresses) out += (out.empty() ? "" : " ") + url(config, address);
  return out;
}

}  // namespace

std::string what_is_open(const Config& config, const AccessControl& access) {
  using wire::Role;
  auto addresses = reachable_addresses(config.listen);
  const auto administered = reachable_addresses(admin_addresses(config));
  if (!config.admin_listen.empty()) addresses.insert(addresses.end(), administered.begin(), administered.end());
  const wire::Roles roles = access.anonymous();
  std::string may;
  auto add = [&](Role role, const char* what) {
    if (roles.has(role)) may += (may.empty() ? "" : ", ") + std::string(what);
  };
  add(Role::kInfer, "see and run models");
  add(Role::kMetrics, "read metrics");
  if (!administered.empty()) add(Role::kAdmin, "load and unload models, change settings and follow requests");
  if (addresses.empty() || may.empty() || !config.tls.client_ca.empty()) return {};
  std::string text = "whoever reaches";
  for (const auto& address : addresses) text += (&address == &addresses.front() ? " " : ", ") + address;
  text += " may " + may + " without a key";
  if (!roles.has(Role::kAdmin)) text += "; admin methods are refused (auth.admin)";
  return text + ". Set auth.keys_file and auth.anonymous, or listen on loopback";
}

void print_error(const std::string& line) {
  if (base::log::format() == base::log::Format::kText) return void(std::fprintf(stderr, "%s\n", line.c_str()));
  base::log::write(base::log::Level::kError, line);
  base::log::flush(std::chrono::seconds(1));
}

// A folder may have any name, and a model's own words may be its reason: each row is one line.
std::string model_table(const bus::Catalog& catalog) {
  size_t wide = 5;
  for (const auto& row : catalog.index) wide = std::max(wide, row.name.size() + row.version.size() + 1);
  std::string out;
  for (const auto& row : catalog.index) {
    const std::string name = printable(row.name + (row.version.empty() ? "" : "/" + row.version));
    out += "  " + name + std::string(wide + 2 - std::min(wide, name.size()), ' ') + std::string(bus::name(row.state));
    out += (row.reason.empty() ? "" : ": " + printable(row.reason)) + '\n';
  }
  return out.empty() ? "  (no models)\n" : out;
}

std::string ready_models(const bus::Catalog& catalog) {
  const auto& rows = catalog.index;
  const auto ready =
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.state == bus::ModelState::kReady; });
  return std::to_string(ready) + " of " + std::to_string(rows.size()) + " models are ready";
}

std::string banner(const Config& config, const Bound& bound, const bus::Catalog& catalog, const AccessControl& access) {
  std::string text = "weir " + std::string(kVersion) + " is listening on " + urls(config, bound.inference);
  text += "  (REST and gRPC on the same port)\n";
  if (!bound.admin.empty()) text += "admin methods are served at " + urls(config, bound.admin) + '\n';
  text += "models:\n" + model_table(catalog);
  auto first = std::find_if_not(bound.inference.begin(), bound.inference.end(), is_unix);
  if (first != bound.inference.end())
    text += "try: curl -s " + url(config, *first) +
            (catalog.models.empty() ? std::string("/v2") : "/v2/models/" + catalog.models.begin()->first) + '\n';
  if (auto open = what_is_open(config, access); !open.empty()) text += "warning: " + open + '\n';
  return text;
}

void greet(const Config& config, const net::Server& server, const bus::Catalog& catalog, const AccessControl& access) {
  using wire::AdminMethods;
  const bool apart = !config.admin_listen.empty();
  Bound bound{server.bound(apart ? AdminMethods::kElsewhere : AdminMethods::kServed), {}};
  if (apart) bound.admin = server.bound(AdminMethods::kServed);
  if (base::log::format() == base::log::Format::kText)
    std::fputs(banner(config, bound, catalog, access).c_str(), stderr);
  else
    base::log::info("weir is listening", {{"version", kVersion},
                                          {"addresses", urls(config, bound.inference)},
                                          {"admin_addresses", urls(config, bound.admin)},
                                          {"models", ready_models(catalog)}});
  if (auto open = what_is_open(config, access); !open.empty())
    base::log::warning("other machines may be able to reach the server", {{"open", open}});
}

}  // namespace weir::app
