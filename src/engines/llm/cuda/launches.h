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

// The dimensions that the model fixes; tokens, queries, keys and values are the step's.
inline RopeStore rope_of(const Shape& shape, const DeviceWeights& weights, uint32_t index) {
  const DeviceLayer& layer = weights.layers[index];
  const Rope& turn = shape.rope_of(index);
  const bool turns = !turn.frequencies.empty();
  RopeStore rope{};
  rope.frequencies = turns ? weights.frequencies : weights.no_frequencies;
  rope.heads = shape.heads, rope.kv_heads = shape.kv_heads, rope.dim = shape.head_dim;
  rope.scale = turn.scale, rope.pairs = uint32_t(turn.frequencies.size());
  rope.bias = layer.qkv_bias;
  rope.q_norm = layer.q_norm, rope.k_norm = layer.k_norm, rope.epsilon = shape.epsilon;
  return rope;
}

}  // namespace weir::llm::cuda
