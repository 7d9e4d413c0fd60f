// Whether requests of a model share batches, and if not, why: for the log and the console.
#pragma once

#include <optional>
#include <string_view>

#include "msg/spec.h"

namespace weir::bus {

// `configured`: whether the model's configuration says max_batch_size, where that is known.
inline std::string_view batching_text(const msg::ModelSpec& spec, std::optional<bool> configured = {}) {
  if (spec.text) return "tokens of all sequences";
  if (spec.decoupled) return "none: the model is decoupled, and works on each request by itself";
  if (spec.max_batch == 0 && configured)
    return *configured ? "none: max_batch_size is 0" : "none: the first dimensions of its tensors are not all free";
  if (spec.max_batch == 0) return "none: max_batch_size is 0, or the first dimensions of its tensors are not all free";
  if (spec.max_batch == 1) return "none: max_batch_size is 1";
  if (!spec.batching.dynamic) return "none across requests: its configuration has no dynamic batching";
  return "of requests";
}

}  // namespace weir::bus
