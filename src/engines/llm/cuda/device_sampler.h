// DeviceSampler: draws tokens from a step's logits on the device, and takes logprobs of them.
//
// Logits are there for a group of requests at a time (sampling_plan.h). Ids stay on the device, where the next step may
// use them before the host has read them.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/llm/cuda/forward_pass.h"

namespace weir::llm::cuda {

class DeviceSampler {
 public:
  // All outlive it.
  DeviceSampler(KernelQueue& queue, const Shape& shape, const Activations& activations)
      : queue_(queue), shape_(shape), memory_(activations) {}

  // `before`: how many ids the step before has sampled. `forward` computes logits; null: they are there, of all
  // requests.
  base::Status run(const QueuedStep& queued, const SamplingPlan& plan, uint32_t before, ForwardPass* forward);

  // Where a test sets it: all logits are appended, and run() waits for the device.
  std::vector<float>* logits_for_tests = nullptr;

 private:
  base::Status prepare(const QueuedStep& queued, const SamplingPlan& plan, uint32_t before);
  base::Status draw(const QueuedStep& queued, const LogitsGroup& group);
  base::Status draw_range(const QueuedStep& queued, Range range);
  base::Status take_logprobs(const QueuedStep& queued, const LogitsGroup& group, size_t most);
  base::Status show_logits(Range requests);

  KernelQueue& queue_;
  const Shape& shape_;
  const Activations& memory_;
  device::PinnedBlock shown_;
};

}  // namespace weir::llm::cuda
