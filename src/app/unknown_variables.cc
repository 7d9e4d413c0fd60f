#include "app/unknown_variables.h"

#include <algorithm>
#include <string_view>

#include "app/config.h"
#include "app/settings.h"
#include "base/encoding.h"

namespace weir::app {
namespace {

using base::Setting;

// Beside the settings'.
constexpr std::string_view kOthers[] = {"WEIR_API_KEY", "WEIR_CONFIG", "WEIR_CUDA_MODULE", "WEIR_ONNXRUNTIME"};

// WEIR_SERVICE_HOST, WEIR_SERVICE_PORT_GRPC, WEIR_PORT, WEIR_PORT_8080_TCP_ADDR; WEIR_GPU_… of the Service weir-gpu.
bool is_of_service(std::string_view name) {
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != name.npos || name.ends_with("_PORT"))
    return true;
  const size_t port = name.find("_PORT_");
  return port != name.npos && port + 6 < name.size() && name[port + 6] >= '0' && name[port + 6] <= '9';
}

}  // namespace

std::vector<std::string> unknown_variables(const char* const* environment) {
  Config config;
  const std::vector<Setting> rows = settings(config);
  std::vector<std::string> known(std::begin(kOthers), std::end(kOthers)), out;
  for (const auto& row : rows)
    if (row.form != Setting::ValueKind::kTree) known.push_back(row.environment_name());
  for (; *environment; ++environment) {
    const std::string_view entry = *environment, name = entry.substr(0, entry.find('='));
    if (!name.starts_with("WEIR_") || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (is_of_service(name)) continue;
    const std::string shown = base::presentable(name, 128);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.environment_name() == name; });
    const auto near = base::near_miss(name, known);
    if (row != rows.end())
      out.push_back(shown + ": " + row->key + " can be set in the file only");
    else
      out.push_back(shown + " is no setting" + (near.empty() ? "" : ", did you mean " + std::string(near) + "?"));
  }
  return out;
}

}  // namespace weir::app
