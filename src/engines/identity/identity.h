// The identity engine: returns every input as an output of the same name, type, shape and bytes.
//
// It takes any tensors and copies nothing, so it measures the path around it. Without a delay it is inline: stepped on
// the Call's own shard, from any number of shards at once (it has no state). With the parameter `delay_us` it runs in
// a lane and sleeps that long per step, as a model that computes for that long would.
#pragma once

#include <memory>

#include "base/status.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::identity {

// INVALID_ARGUMENT when `delay_us` is not a whole number from 0 to 60 000 000.
base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted);

}  // namespace weir::identity
