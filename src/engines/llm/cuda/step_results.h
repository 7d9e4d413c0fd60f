// StepInFlight: a step that is queued on the device and not collected yet; and the layout of what it gives.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "engines/llm/cuda/sampling_plan.h"
#include "engines/llm/load/store.h"
#include "generation/engine.h"

namespace weir::llm::cuda {

// Offsets in the step's results on the device; on the host the ids come before them.
struct ResultLayout {
  size_t logprobs = 0, best_ids = 0, best = 0, readouts = 0, pools = 0, bytes = 0;
  size_t ids = 0;  // bytes of the ids
};
ResultLayout lay_out_results(const generation::TokenStep& step, const SamplingPlan& sampling, const Shape& shape,
                             const Readouts& readouts);

struct StepInFlight {
  explicit StepInFlight(SamplingPlan plan) : sampling(std::move(plan)) {}

  device::PinnedBlock in, masks, out;  // arguments, and the masks that come behind them; ids and results
  device::Event done;
  SamplingPlan sampling;
  ResultLayout results;
};

// Copies the results of the device into the step.
void read_results(const StepInFlight& from, const Shape& shape, const Readouts& readouts, generation::TokenStep& step);

}  // namespace weir::llm::cuda
