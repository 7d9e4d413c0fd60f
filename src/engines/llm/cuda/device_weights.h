// A transformer's parameters in the memory of a device: bfloat16 matrices as the files have them, [outputs][inputs],
// and in the layers perhaps codes (device_matrix.h). The embedding, the output matrix and routers are bfloat16.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/tensor_split.h"
#include "engines/llm/load/coding.h"
#include "engines/llm/load/store.h"

namespace weir::llm::cuda {

// Scores that a router makes for a row: the experts', then the gate of the one that sees every row, if there is one,
// and zeros up to a width that products like.
constexpr uint32_t scores_of(const ExpertShape& e) { return (e.count + uint32_t(e.shared_width > 0) + 7) / 8 * 8; }

// Whether there are layers whose heads do not turn at all.
inline bool has_unturned(const Shape& shape) {
  return !shape.unturned.empty() || shape.rope.frequencies.empty() ||
         (shape.local_rope && shape.local_rope->frequencies.empty());
}

// Addresses on the device; null where the model has no such parameter.
struct DeviceExperts {
  const Bf16* router = nullptr;  // [scores_of][hidden]; null: the layer is no mixture
  DeviceMatrix gate_up, down;    // [experts][gates, then ups][hidden], [experts][hidden][width]
  DeviceMatrix shared_gate_up, shared_down;
  const float *router_bias = nullptr, *gate_up_bias = nullptr, *down_bias = nullptr;  // as long as their outputs
};

struct DeviceLayer {
  const Bf16 *input_norm = nullptr, *post_norm = nullptr;     // before attention and the MLP
  const Bf16 *attention_norm = nullptr, *mlp_norm = nullptr;  // of what they make
  const Bf16 *q_norm = nullptr, *k_norm = nullptr;            // of a head, or of all heads together
  DeviceMatrix qkv, out, gate_up, down;                       // gate_up: gates, then ups
  const float *qkv_bias = nullptr, *out_bias = nullptr, *gate_up_bias = nullptr, *down_bias = nullptr;
  const float* sinks = nullptr;  // [heads]: scores of no position
  DeviceExperts experts;         // in place of gate_up and down
};

struct DeviceWeights {
  // head: the embedding, where the two are one; of encoders null. Of other ranks than the first all three are null.
  const Bf16 *embedding = nullptr, *head = nullptr, *norm = nullptr;
  const float* frequencies = nullptr;        // of rotary positions
  const float* local_frequencies = nullptr;  // of layers with a window, where theirs are others
  const float* no_frequencies = nullptr;     // zeros, of layers that do not turn; null: all do
  const float* readouts = nullptr;           // [layers][concepts][hidden]
  std::vector<DeviceLayer> layers;
  std::vector<device::DeviceBuffer> memory;
  uint64_t bytes = 0;
  uint32_t widened = 0;  // matrices that are bfloat16 although the checkpoint or WeightOptions have them in codes
};

// How the layers' matrices are kept, and how many threads may make codes of them.
struct WeightOptions {
  Keep keep = Keep::kAsStored;
  uint32_t threads = 1;
};

// Through pinned memory, on a stream of its own; waits. `shape` is the whole model's, `split` the rank that gets its
// part of it. Errors: INVALID_ARGUMENT (an array that is missing or of another shape), RESOURCE_EXHAUSTED (both before
// anything is brought), UNAVAILABLE.
base::Result<DeviceWeights> load_device_weights(const Shape& shape, const Readouts& readouts, const Store& store,
                                                device::Device& device, const TensorSplit& split = {},
                                                const WeightOptions& options = {});
// Random weights of that shape, for measuring: normal, of a size that keeps activations in range. `keep`: kWhole, kInt8
// or kInt4.
base::Result<DeviceWeights> random_device_weights(const Shape& shape, uint64_t seed, device::Device& device,
                                                  Keep keep = Keep::kWhole);

}  // namespace weir::llm::cuda
