#include "app/banner.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "app/version.h"

namespace weir::app {
namespace {

// Says which endpoints ask for a secret, and that the others do not.
std::string what_is_guarded(const Config& config) {
  std::string text;
  for (const auto& served : config.dialects)
    if (std::string guards = served.on ? served.dialect->guards() : ""; !guards.empty())
      text += (text.empty() ? "" : ", and ") + guards;
  return text.empty() ? "there is no authentication" : text + "; nothing guards the rest";
}

bool is_unix(const std::string& address) { return address.starts_with("unix:"); }

std::string url(const Config& config, const std::string& address) {
  return (is_unix(address) ? "" : config.tls.certificate.empty() ? "http://" : "https://") + address;
}

std::string open_addresses(const Config& config) {
  std::string text;
  if (!config.tls.client_ca.empty()) return text;
  for (const auto& address : config.listen)
    if (address.starts_with("0.0.0.0") || address.starts_with("[::]"))
      text.append("note: " + address + " is open to the network, and ").append(what_is_guarded(config)) += '\n';
  return text;
}

}  // namespace

void print_error(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

std::string model_table(const bus::Catalog& catalog) {
  size_t wide = 5;
  for (const auto& row : catalog.index) wide = std::max(wide, row.name.size() + row.version.size() + 1);
  std::string out;
  for (const auto& row : catalog.index) {
    std::string name = row.name + (row.version.empty() ? "" : "/" + row.version);
    out += "  " + name + std::string(wide + 2 - name.size(), ' ') + std::string(bus::name(row.state));
    out += (row.reason.empty() ? "" : ": " + row.reason) + '\n';
  }
  return out.empty() ? "  (no models)\n" : out;
}

std::string ready_models(const bus::Catalog& catalog) {
  const auto& rows = catalog.index;
  const auto ready =
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.state == bus::ModelState::kReady; });
  return std::to_string(ready) + " of " + std::to_string(rows.size()) + " models are ready";
}

std::string banner(const Config& config, const Bound& bound, const bus::Catalog& catalog) {
  std::string text = "weir " + std::string(kVersion) + " is listening on";
  for (const auto& address : bound.inference) text += ' ' + url(config, address);
  text += "  (REST and gRPC on the same port)\n";
  if (!bound.admin.empty()) {
    text += "admin methods are served at";
    for (const auto& address : bound.admin) text += ' ' + url(config, address);
    text += '\n';
  }
  text += "models:\n" + model_table(catalog);
  auto first = std::find_if_not(bound.inference.begin(), bound.inference.end(), is_unix);
  if (first != bound.inference.end())
    text += "try: curl -s " + url(config, *first) +
            (catalog.models.empty() ? std::string("/v2") : "/v2/models/" + catalog.models.begin()->first) + '\n';
  return text + open_addresses(config);
}

}  // namespace weir::app
