// A transformer's parameters in the memory of a device: bfloat16 matrices as the files have them, [outputs][inputs].
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "engines/llm/cuda/kernels.h"
#include "engines/llm/load/store.h"

namespace weir::llm::cuda {

// Addresses on the device; null where the model has no such parameter.
struct DeviceLayer {
  const Bf16 *input_norm = nullptr, *post_norm = nullptr, *q_norm = nullptr, *k_norm = nullptr;
  const Bf16 *qkv = nullptr, *out = nullptr, *gate_up = nullptr, *down = nullptr;  // gate_up: gates, then ups
  const float *qkv_bias = nullptr, *out_bias = nullptr, *gate_up_bias = nullptr, *down_bias = nullptr;
};

struct DeviceWeights {
  // head: the embedding, where the two are one; of encoders null.
  const Bf16 *embedding = nullptr, *head = nullptr, *norm = nullptr;
  const float* frequencies = nullptr;  // of rotary positions
  const float* readouts = nullptr;     // [layers][concepts][hidden]
  std::vector<DeviceLayer> layers;
  std::vector<device::DeviceBuffer> memory;
  uint64_t bytes = 0;
};

// Through pinned memory, on a stream of its own; waits. Errors: INVALID_ARGUMENT (an array that is missing or of
// another shape), RESOURCE_EXHAUSTED, UNAVAILABLE.
base::Result<DeviceWeights> load_device_weights(const Shape& shape, const Readouts& readouts, const Store& store,
                                                device::Device& device);
// Random weights of that shape, for measuring: normal, of a size that keeps activations in range.
base::Result<DeviceWeights> random_device_weights(const Shape& shape, uint64_t seed, device::Device& device);

}  // namespace weir::llm::cuda
