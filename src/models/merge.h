// merge: the configuration laid over what the model file says of itself.
#pragma once

#include "models/model_config.h"

namespace weir::models {

// `file` is the engine's spec: its tensors keep their order and names; the configuration may narrow dimensions that are
// -1, mark inputs optional, add labels, switch batching off, or set the largest batch. A model that takes batches and
// is not told how large gets `default_max_batch`. Errors: INVALID_ARGUMENT, naming the tensor and both sides.
base::Result<msg::ModelSpec> merge(const msg::ModelSpec& wanted, const ModelConfig& config, const msg::ModelSpec& file,
                                   uint32_t default_max_batch);

}  // namespace weir::models
