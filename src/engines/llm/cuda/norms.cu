// Norms of what attention and the MLP make, and of the queries and keys of all heads together. A block has a row, whose
// second reading finds it in the cache; sums are taken in an order that the width alone decides.
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 512;

template <uint32_t kPer>
__global__ void __launch_bounds__(kThreads) add_normed_kernel(AddNormed a) {
  await_inputs();
  const float* branch = a.branch + size_t(blockIdx.x) * a.hidden;
  float* stream = a.stream + size_t(blockIdx.x) * a.hidden;
  float squares = 0;
  for (uint32_t i = threadIdx.x * kPer; i < a.hidden; i += blockDim.x * kPer) {
    float x[kPer];
    load(x, branch + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) squares += x[j] * x[j];
  }
  const float factor = rsqrtf(block_sum(squares) / float(a.hidden) + a.epsilon);
  for (uint32_t i = threadIdx.x * kPer; i < a.hidden; i += blockDim.x * kPer) {
    float x[kPer], w[kPer], sum[kPer];
    load(x, branch + i);
    load(w, a.weight + i);
    load(sum, stream + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) sum[j] += x[j] * factor * (w[j] + a.offset);
    store(stream + i, sum);
  }
}

// A row's product with its bias.
template <uint32_t kPer>
__device__ void load_biased(float (&x)[kPer], const Bf16* from, const float* bias, uint32_t i) {
  load(x, from + i);
  if (!bias) return;
  float b[kPer];
  load(b, bias + i);
#pragma unroll
  for (uint32_t j = 0; j < kPer; ++j) x[j] += b[j];
}

// A block has the queries, the keys or the values of a row.
template <uint32_t kPer>
__global__ void __launch_bounds__(kThreads) norm_whole_kernel(NormWhole a) {
  await_inputs();
  const uint32_t part = blockIdx.y, begin = part == 0 ? 0 : a.queries + (part - 1) * a.keys;
  const uint32_t width = part == 0 ? a.queries : a.keys;
  Bf16* row = a.qkv + size_t(blockIdx.x) * (a.queries + 2 * size_t(a.keys)) + begin;
  const float* bias = a.bias ? a.bias + begin : nullptr;
  const Bf16* weight = part == 0 ? a.q_norm : part == 1 ? a.k_norm : nullptr;
  float squares = 0, x[kPer];
  for (uint32_t i = threadIdx.x * kPer; weight && i < width; i += blockDim.x * kPer) {
    load_biased(x, row, bias, i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) squares += x[j] * x[j];
  }
  const float factor = rsqrtf(block_sum(squares) / float(width) + a.epsilon);
  for (uint32_t i = threadIdx.x * kPer; i < width; i += blockDim.x * kPer) {
    load_biased(x, row, bias, i);
    if (weight) {
      float w[kPer];
      load(w, weight + i);
#pragma unroll
      for (uint32_t j = 0; j < kPer; ++j) x[j] *= factor * w[j];
    }
    store(row + i, x);
  }
}

}  // namespace

Code add_normed(const Launch& launch, const AddNormed& a) {
  if (a.hidden % 2) return kBadShape;
  if (a.tokens == 0) return 0;
  const uint32_t per = a.hidden % 4 ? 2 : 4;
  return run(launch, per == 2 ? add_normed_kernel<2> : add_normed_kernel<4>, a.tokens,
             threads_for(a.hidden / per, kThreads), 0, a);
}

Code norm_whole(const Launch& launch, const NormWhole& a) {
  if (a.queries % 2 || a.keys % 2 || !a.q_norm || !a.k_norm) return kBadShape;
  if (a.tokens == 0) return 0;
  const uint32_t per = a.queries % 8 || a.keys % 8 ? 2 : 8;
  return run(launch, per == 2 ? norm_whole_kernel<2> : norm_whole_kernel<8>, dim3(a.tokens, a.bias ? 3 : 2),
             threads_for(a.queries / per, kThreads), 0, a);
}

Code load_norms(int32_t device) {
  return load_kernels(device, add_normed_kernel<2>, add_normed_kernel<4>, norm_whole_kernel<2>, norm_whole_kernel<8>);
}

}  // namespace weir::llm::cuda
