// The curves of gates (kernel_types.h).
#pragma once

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

template <Gate kGate>
__device__ inline float gated(float gate, float up) {
  if constexpr (kGate == Gate::kGeluTanh)
    return gate / 2 * (1.f + tanhf(0.7978845608f * (gate + 0.044715f * gate * gate * gate))) * up;
  if constexpr (kGate == Gate::kClamped) {
    gate = fminf(gate, kGateLimit), up = fminf(fmaxf(up, -kGateLimit), kGateLimit);
    return gate / (1.f + expf(-kGateSlope * gate)) * (up + 1);
  }
  return gate / (1.f + expf(-gate)) * up;
}

// The same where a launch says which.
__device__ inline float gated(Gate kind, float gate, float up) {
  return kind == Gate::kSilu       ? gated<Gate::kSilu>(gate, up)
         : kind == Gate::kGeluTanh ? gated<Gate::kGeluTanh>(gate, up)
                                   : gated<Gate::kClamped>(gate, up);
}

}  // namespace weir::llm::cuda
