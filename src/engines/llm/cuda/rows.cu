// Kernels that go over rows once: embedding, norm, SwiGLU, gather. A thread takes two neighbouring elements, so that a
// warp reads 128 bytes at a time; widths are even.
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 256;

__device__ float2 pair_at(const Bf16* row, uint32_t i) {
  uint32_t both = reinterpret_cast<const uint32_t*>(row)[i];
  return {__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u)};
}

__device__ void put_pair(Bf16* row, uint32_t i, float low, float high) {
  reinterpret_cast<uint32_t*>(row)[i] = uint32_t(narrow(low)) | uint32_t(narrow(high)) << 16;
}

__global__ void embed_kernel(Embed a) {
  const Bf16* from = a.table + size_t(a.ids[blockIdx.x]) * a.hidden;
  auto* to = reinterpret_cast<float2*>(a.stream + size_t(blockIdx.x) * a.hidden);
  for (uint32_t i = threadIdx.x; i < a.hidden / 2; i += blockDim.x) to[i] = pair_at(from, i);
}

__global__ void add_norm_kernel(AddNorm a) {
  auto* stream = reinterpret_cast<float2*>(a.stream + size_t(blockIdx.x) * a.hidden);
  const Bf16* delta = a.delta ? a.delta + size_t(blockIdx.x) * a.hidden : nullptr;
  Bf16* out = a.out + size_t(blockIdx.x) * a.hidden;
  float squares = 0;
  for (uint32_t i = threadIdx.x; i < a.hidden / 2; i += blockDim.x) {
    float2 x = stream[i];
    if (delta) {
      float2 d = pair_at(delta, i);
      x.x += d.x, x.y += d.y;
      stream[i] = x;
    }
    squares += x.x * x.x + x.y * x.y;
  }
  float factor = rsqrtf(block_sum(squares) / float(a.hidden) + a.epsilon);
  // What a thread reads here it has written itself.
  for (uint32_t i = threadIdx.x; i < a.hidden / 2; i += blockDim.x) {
    float2 x = stream[i], w = pair_at(a.weight, i);
    put_pair(out, i, x.x * factor * w.x, x.y * factor * w.y);
  }
}

__device__ float silu(float x) { return x / (1.f + expf(-x)); }

__global__ void swiglu_kernel(SwiGlu a) {
  const Bf16* gate = a.gate_up + size_t(blockIdx.x) * 2 * a.width;
  const Bf16* up = gate + a.width;
  Bf16* out = a.out + size_t(blockIdx.x) * a.width;
  for (uint32_t i = blockIdx.y * blockDim.x + threadIdx.x; i < a.width / 2; i += gridDim.y * blockDim.x) {
    float2 g = pair_at(gate, i), u = pair_at(up, i);
    put_pair(out, i, silu(g.x) * u.x, silu(g.y) * u.y);
  }
}

__global__ void gather_kernel(Gather a) {
  auto* from = reinterpret_cast<const uint32_t*>(a.in + size_t(a.which[blockIdx.x]) * a.width);
  auto* to = reinterpret_cast<uint32_t*>(a.out + size_t(blockIdx.x) * a.width);
  for (uint32_t i = threadIdx.x; i < a.width / 2; i += blockDim.x) to[i] = from[i];
}

}  // namespace

Code embed(const Launch& launch, const Embed& a) {
  if (a.hidden % 2) return kBadShape;
  if (a.tokens == 0) return 0;
  return run(launch, embed_kernel, a.tokens, kThreads, 0, a);
}

Code add_norm(const Launch& launch, const AddNorm& a) {
  if (a.hidden % 2) return kBadShape;
  if (a.tokens == 0) return 0;
  return run(launch, add_norm_kernel, a.tokens, kThreads, 0, a);
}

Code swiglu(const Launch& launch, const SwiGlu& a) {
  if (a.width % 2) return kBadShape;
  if (a.tokens == 0) return 0;
  uint32_t blocks = (a.width / 2 + kThreads - 1) / kThreads;
  return run(launch, swiglu_kernel, dim3(a.tokens, blocks < 64 ? blocks : 64), kThreads, 0, a);
}

Code gather(const Launch& launch, const Gather& a) {
  if (a.width % 2) return kBadShape;
  if (a.count == 0) return 0;
  return run(launch, gather_kernel, a.count, kThreads, 0, a);
}

}  // namespace weir::llm::cuda
