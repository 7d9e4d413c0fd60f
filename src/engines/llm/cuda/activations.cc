#include "engines/llm/cuda/activations.h"

#include <algorithm>
#include <utility>

#include "engines/llm/cuda/plan.h"
#include "engines/llm/cuda/sampling_plan.h"

namespace weir::llm::cuda {

namespace {

// The widest feed-forward part that is no router's choice.
size_t widest_mlp(const Shape& shape) {
  bool dense = false;
  for (uint32_t i = 0; i < shape.layers; ++i) dense = dense || !shape.is_mixture(i);
  return std::max(dense ? shape.intermediate : 0, shape.experts ? shape.experts->shared_width : 0);
}

}  // namespace

base::Status Activations::allocate(device::Device& device, const Shape& shape, size_t tokens, size_t logits_rows) {
  const size_t hidden = shape.hidden, inner = widest_mlp(shape), vocabulary = shape.vocabulary;
  const size_t q = size_t(shape.heads) * shape.head_dim, kv = size_t(shape.kv_heads) * shape.head_dim;
  size_t end = 0;
  auto room = [&](size_t n) { return std::exchange(end, end + aligned(n)); };
  const size_t at_residual = room(tokens * hidden * sizeof(float));
  const size_t at_normed = room(tokens * hidden * sizeof(Bf16));
  const size_t at_qkv = room(tokens * (q + 2 * kv) * sizeof(Bf16));
  const size_t at_queries = room(tokens * q * sizeof(Bf16)), at_mixed = room(tokens * q * sizeof(Bf16));
  const size_t at_gates = room(tokens * 2 * std::max(inner, hidden) * sizeof(Bf16));
  const size_t at_gated = room(tokens * inner * sizeof(Bf16));
  const size_t at_gathered = room(logits_rows * hidden * sizeof(Bf16));
  const size_t at_logits = room(logits_rows * vocabulary * sizeof(float));
  const size_t at_adjusted = room(kAdjustedAtOnce * vocabulary * sizeof(float));
  const size_t at_sampled = room(tokens * sizeof(uint32_t)), at_before = room(tokens * sizeof(uint32_t));
  const size_t at_workspace = room(kWorkspace);
  auto buffer = device.buffer(end);
  if (!buffer) return buffer.error();
  memory = std::move(*buffer), bytes = end;
  auto place = [&]<class T>(T*& to, size_t at) { to = reinterpret_cast<T*>(memory.data() + at); };
  place(residual, at_residual), place(normed, at_normed), place(qkv, at_qkv), place(queries, at_queries);
  place(mixed, at_mixed), place(gates, at_gates), place(gated, at_gated), place(gathered, at_gathered);
  place(logits, at_logits), place(adjusted, at_adjusted), place(sampled, at_sampled);
  place(sampled_before, at_before), place(workspace, at_workspace);
  if (!shape.experts) return {};
  auto status = experts.allocate(device, *shape.experts, shape.hidden, tokens);
  bytes += experts.memory.size();
  return status;
}

}  // namespace weir::llm::cuda
