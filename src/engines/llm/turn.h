// The turns of models that are loaded on GPUs.
#pragma once

#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "engines/llm/llm.h"

namespace weir::llm {

inline base::Status not_wanted() { return base::failure(base::Code::kUnavailable, "the server is shutting down"); }

// The turn on a GPU, kept until the result is destroyed; null, and at once, for any other device. Errors: UNAVAILABLE,
// nobody wants the model any more.
inline base::Result<std::shared_ptr<void>> take_turn(const Place& place, const device::Device& device) {
  if (device.info().index < 0 || !place.turn) return std::shared_ptr<void>();
  auto turn = place.turn(device.info().id);
  if (!turn) return not_wanted();
  return turn;
}

}  // namespace weir::llm
