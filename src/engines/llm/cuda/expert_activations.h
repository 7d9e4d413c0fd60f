// ExpertActivations: the memory on a device in which the experts of one layer are computed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "engines/llm/cuda/kernels.h"
#include "engines/llm/load/shape.h"

namespace weir::llm::cuda {

// Pairs are those of expert_kernels.h.
struct ExpertActivations {
  // For steps of so many tokens. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE.
  base::Status allocate(device::Device& device, const ExpertShape& experts, size_t hidden, size_t tokens);

  float* scores = nullptr;      // [tokens][scores_of]
  uint32_t* chosen = nullptr;   // [pairs]: the experts
  float* shares = nullptr;      // [pairs]
  uint32_t* order = nullptr;    // [pairs], by expert
  ExpertTile* tiles = nullptr;  // as many as any choice of experts needs
  Bf16* gated = nullptr;        // [pairs][width]
  float* answers = nullptr;     // [pairs][hidden]
  float* shared = nullptr;      // [tokens][hidden], of the expert that sees every token; null: there is none

  device::DeviceBuffer memory;
};

}  // namespace weir::llm::cuda
