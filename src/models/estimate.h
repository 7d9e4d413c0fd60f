// How much memory a model takes, as far as can be said from outside.
#pragma once

#include <cstdint>

#include "models/folder.h"
#include "models/model_config.h"

namespace weir::models {

// Bytes of one version: those that the configuration says (ModelConfig::memory), else those of the version's files but
// for the adapters' (adapter_bytes()). The instances of a model of tensors share them; each instance of a model of
// tokens has its own. A pipeline takes none.
uint64_t estimated_bytes(const ModelFolder& folder, const ModelConfig& config, uint64_t version,
                         const msg::ModelSpec& loaded);

}  // namespace weir::models
