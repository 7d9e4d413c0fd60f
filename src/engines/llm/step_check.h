// A step that an engine can run: what the lane lays out is checked once more before it becomes addresses.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "generation/engine.h"

namespace weir::llm {

struct StepLimits {
  uint32_t tokens = 0, vocabulary = 0;
  uint32_t blocks = 0, block_size = 0;
  uint32_t sampled = 0;   // ids that the step before has sampled, which this one may name
  uint32_t adapters = 0;  // that the engine has loaded
};

// Errors: INVALID_ARGUMENT (a token id beyond the vocabulary), INTERNAL (arrays that do not fit each other or the
// cache).
base::Status check_step(const generation::TokenStep& step, const StepLimits& limits);

}  // namespace weir::llm
