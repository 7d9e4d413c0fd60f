// StepMasks: the masks of a step's forms, a bit for each token that may come next. They go to the device apart from the
// step's other arguments: what a form allows is found while the device computes the logits. No graph has their address.
#pragma once

#include "engines/llm/cuda/kernel_queue.h"
#include "engines/llm/cuda/sampling_plan.h"

namespace weir::llm::cuda {

class StepMasks {
 public:
  explicit StepMasks(uint32_t vocabulary) : words_(mask_words(vocabulary)) {}

  // Room for `count` masks, there and in `staging`; before a step is queued that has them.
  base::Status fit(KernelQueue& queue, device::PinnedBlock& staging, size_t count);
  // Finds the plan's masks and queues their copy by way of `staging`, which is in use until that is done. Room is
  // there. A failure has drained the queue.
  base::Status upload(KernelQueue& queue, const SamplingPlan& plan, device::PinnedBlock& staging);
  const uint32_t* at() const { return reinterpret_cast<const uint32_t*>(memory_.data()); }

 private:
  const size_t words_;  // of a mask
  device::DeviceBuffer memory_;
};

}  // namespace weir::llm::cuda
