// The parts that all launchers of a layer's kernels share.
#pragma once

#include "base/status.h"
#include "engines/llm/cuda/device_weights.h"
#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {

// Runs one after the other until one fails.
template <class... Steps>
base::Status each(Steps&&... steps) {
  base::Status status;
  (void)(... && (status = steps()).ok());
  return status;
}

inline Gate gate_of(Activation activation) {
  return activation == Activation::kGeluTanh        ? Gate::kGeluTanh
         : activation == Activation::kClampedSwiglu ? Gate::kClamped
                                                    : Gate::kSilu;
}
// Norms add this to their weights, which may be stored less 1.
inline float norm_offset(const Shape& shape) { return shape.norms_less_one ? 1.f : 0.f; }

// The dimensions that the model fixes; tokens, queries, keys and values are the step's.
inline RopeStore rope_of(const Shape& shape, const DeviceWeights& weights, uint32_t index) {
  const DeviceLayer& layer = weights.layers[index];
  const Rope& turn = shape.rope_of(index);
  const bool turns = !turn.frequencies.empty();
  RopeStore rope{};
  const bool local = shape.local_rope && &turn == &*shape.local_rope;
  rope.frequencies = !turns ? weights.no_frequencies : local ? weights.local_frequencies : weights.frequencies;
  rope.heads = shape.heads, rope.kv_heads = shape.kv_heads, rope.dim = shape.head_dim;
  rope.scale = turns ? turn.scale : 1, rope.pairs = uint32_t(turn.frequencies.size());
  if (shape.qk_norm_whole) return rope;  // which is done before, with the biases
  rope.bias = layer.qkv_bias, rope.offset = norm_offset(shape);
  rope.q_norm = layer.q_norm, rope.k_norm = layer.k_norm, rope.epsilon = shape.epsilon;
  return rope;
}

}  // namespace weir::llm::cuda
