// Rotary positions, and keys and values into the cache. One block per token; a thread takes one dimension and its
// partner of one head.
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 256;

__global__ void rope_store_kernel(RopeStore a) {
  uint32_t token = blockIdx.x, half = a.dim / 2;
  uint32_t slot = a.slots[token];
  auto position = float(a.positions[token]);
  const Bf16* in = a.qkv + size_t(token) * (a.heads + 2 * a.kv_heads) * a.dim;
  Bf16* q = a.q + size_t(token) * a.heads * a.dim;
  size_t cached = size_t(slot) * a.kv_heads * a.dim;
  for (uint32_t i = threadIdx.x; i < (a.heads + a.kv_heads) * half; i += blockDim.x) {
    uint32_t head = i / half, at = i % half;
    bool key = head >= a.heads;
    if (key && slot == kNoSlot) continue;
    const Bf16* from = in + size_t(head) * a.dim;
    Bf16* to = key ? a.k_cache + cached + size_t(head - a.heads) * a.dim : q + size_t(head) * a.dim;
    // The exact sincosf: positions reach tens of thousands of radians, where the fast one is of no use.
    float sine, cosine;
    sincosf(position * a.frequencies[at], &sine, &cosine);
    sine *= a.scale, cosine *= a.scale;
    float first = widen(from[at]), second = widen(from[at + half]);
    to[at] = narrow(first * cosine - second * sine);
    to[at + half] = narrow(second * cosine + first * sine);
  }
  if (slot == kNoSlot) return;
  const Bf16* values = in + size_t(a.heads + a.kv_heads) * a.dim;
  for (uint32_t i = threadIdx.x; i < a.kv_heads * a.dim; i += blockDim.x) a.v_cache[cached + i] = values[i];
}

}  // namespace

Code rope_store(const Launch& launch, const RopeStore& a) {
  if (a.dim % 2) return kBadShape;
  if (a.tokens == 0) return 0;
  return run(launch, rope_store_kernel, a.tokens, kThreads, 0, a);
}

}  // namespace weir::llm::cuda
