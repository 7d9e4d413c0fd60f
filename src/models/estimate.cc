#include "models/estimate.h"

#include <algorithm>

namespace weir::models {
namespace {

bool is_below(const std::string& file, const std::string& folder) {
  return !folder.empty() && file.size() > folder.size() && file.starts_with(folder) && file[folder.size()] == '/';
}

bool is_of_adapter(const std::string& file, const ModelConfig& config, const msg::ModelSpec& model) {
  return is_below(file, config.adapters_folder) ||
         std::any_of(model.adapters.begin(), model.adapters.end(),
                     [&](const auto& adapter) { return is_below(file, adapter.second); });
}

}  // namespace

uint64_t estimated_bytes(const ModelFolder& folder, const ModelConfig& config, uint64_t version,
                         const msg::ModelSpec& loaded) {
  if (config.memory) return *config.memory;
  if (config.engine == kPipeline) return 0;
  uint64_t bytes = 0;
  if (auto files = folder.versions.find(version); files != folder.versions.end())
    for (const auto& file : files->second)
      if (!is_of_adapter(file.path, config, loaded)) bytes += file.size;
  return bytes * (loaded.text ? std::max(1u, loaded.instances) : 1);
}

}  // namespace weir::models
