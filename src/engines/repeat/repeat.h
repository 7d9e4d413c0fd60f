// The repeat engine: one answer for each element of its input, at times that the client chooses. It stands in for
// decoupled models where clients are tried out, and takes what Triton's backend of that name takes:
//   IN INT32[n], DELAY UINT32[n] (milliseconds before each answer), WAIT UINT32[1] (read, and not waited for: requests
//   run side by side here)  ->  n times OUT INT32[1], the element, and IDX UINT32[1], its place.
// An IN of no elements gets no answer but the end.
#pragma once

#include <memory>

#include "base/status.h"
#include "msg/spec.h"
#include "sched/decoupled_engine.h"

namespace weir::repeat {

// INVALID_ARGUMENT where the configuration asks for batches.
base::Result<std::unique_ptr<sched::DecoupledEngine>> load(const msg::ModelSpec& wanted);

}  // namespace weir::repeat
