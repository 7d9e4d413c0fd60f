// Triton's ModelMetrics -> ModelConfig::first_response_ms.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model_config.pb.h"

namespace weir::models {

// The bounds of nv_inference_first_response_histogram_ms; empty: the configuration gives none. Other families are
// added to ModelConfig::notes. Errors: INVALID_ARGUMENT for bounds that are not finite, not ascending, or too many.
base::Result<std::vector<double>> read_first_response_bounds(const inference::ModelMetrics& in,
                                                             std::vector<std::string>& notes);

}  // namespace weir::models
