#include "models/estimate.h"

#include <algorithm>

namespace weir::models {

uint64_t estimated_bytes(const ModelFolder& folder, const ModelConfig& config, uint64_t version,
                         const msg::ModelSpec& loaded) {
  if (config.memory) return *config.memory;
  if (config.engine == kPipeline) return 0;
  uint64_t bytes = 0;
  if (auto files = folder.versions.find(version); files != folder.versions.end())
    for (const auto& file : files->second) bytes += file.size;
  return bytes * (loaded.text ? std::max(1u, loaded.instances) : 1);
}

}  // namespace weir::models
