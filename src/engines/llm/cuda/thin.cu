// Products with few rows: then the weight is all there is to read, once, and tensor cores do not help. A warp, or a
// team of them, takes kOutputs rows of the weight and all rows of x; a lane takes eight inputs at a time, 16 bytes. One
// and two rows have the same sums.
#include "engines/llm/cuda/codes.cuh"
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/weights.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;

// The products of inputs [i, i + kPer) are added to the sums of all rows.
template <uint32_t kRows, uint32_t kOutputs>
__device__ void add_products(float (&sum)[kRows][kOutputs], const uint4 (&weights)[kOutputs], const Matmul& a,
                             uint32_t i) {
  float v[kOutputs][kPer];
#pragma unroll
  for (uint32_t o = 0; o < kOutputs; ++o) widen(v[o], weights[o]);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    if (r >= a.rows) break;
    float x[kPer];
    load(x, a.x + size_t(r) * a.inputs + i);
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o)
#pragma unroll
      for (uint32_t j = 0; j < kPer; ++j) sum[r][o] = fmaf(x[j], v[o][j], sum[r][o]);
  }
}

// Steps whose weights are on their way together.
template <uint32_t kOutputs>
constexpr uint32_t kAtOnce = 8 / kOutputs;

// kRows: at least a.rows. kSplit: warps that share the inputs of the same outputs. The first weights are on their way
// before x is there.
template <uint32_t kRows, uint32_t kOutputs, uint32_t kSplit>
__global__ void __launch_bounds__(kThreads) thin_kernel(Matmul a) {
  static_assert(kRows * kOutputs <= kWarp && kWarps % kSplit == 0);
  constexpr uint32_t kTurn = kStep * kAtOnce<kOutputs>;
  uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  uint32_t first = (blockIdx.x * (kWarps / kSplit) + warp / kSplit) * kOutputs;
  const Bf16* weight[kOutputs];
#pragma unroll
  for (uint32_t o = 0; o < kOutputs; ++o)
    weight[o] = static_cast<const Bf16*>(a.weight.data) + size_t(min(first + o, a.outputs - 1)) * a.inputs;

  const uint32_t begin = warp % kSplit * kTurn + lane * kPer;
  uint4 w[kAtOnce<kOutputs>][kOutputs];
  load_weights(w, weight, begin, a.inputs);
  await_inputs();
  float sum[kRows][kOutputs] = {};
  for (uint32_t base = begin; base < a.inputs; base += kTurn * kSplit) {
    if (base != begin) load_weights(w, weight, base, a.inputs);
#pragma unroll
    for (uint32_t s = 0; s < kAtOnce<kOutputs>; ++s) {
      if (base + s * kStep >= a.inputs) break;
      add_products(sum, w[s], a, base + s * kStep);
    }
  }
  float mine = 0;
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) {
      float all = warp_sum(sum[r][o]);
      if (lane == r * kOutputs + o) mine = all;
    }
  mine = join_team<kWarps, kSplit, kRows * kOutputs>(mine);
  const uint32_t row = lane / kOutputs, output = first + lane % kOutputs;
  if (warp % kSplit == 0 && row < min(kRows, a.rows) && output < a.outputs) put_product(a, row, output, mine);
}

// One or two rows. How the inputs are shared depends on the weight's shape alone, so that a row's sum does: where there
// are few outputs, all multiprocessors have enough of the weight on its way only if several warps read each row of it.
template <uint32_t kRows>
Code start(const Launch& launch, const Matmul& a) {
  constexpr uint32_t kOutputs = 2, kFewOutputs = 8192, kManyInputs = 4096, kSomeInputs = 2048;
  const bool few = a.outputs <= kFewOutputs;
  const uint32_t split = few && a.inputs >= kManyInputs ? 4 : few && a.inputs >= kSomeInputs ? 2 : 1;
  const uint32_t each = kOutputs * kWarps / split, blocks = (a.outputs + each - 1) / each;
  auto kernel = split == 4   ? thin_kernel<kRows, kOutputs, 4>
                : split == 2 ? thin_kernel<kRows, kOutputs, 2>
                             : thin_kernel<kRows, kOutputs, 1>;
  return run(launch, kernel, blocks, kThreads, 0, a);
}

}  // namespace

bool is_aligned(const Matmul& a) {
  auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  return a.inputs % kPer == 0 && aligned(a.x) && aligned(a.weight.data);
}

bool is_thin(const Matmul& a) { return a.rows <= kThinRows && is_aligned(a); }

Code thin_matmul(const Launch& launch, const Matmul& a) {
  if (a.rows == 1) return start<1>(launch, a);
  if (a.rows == 2) return start<2>(launch, a);
  constexpr uint32_t kOutputs = 4, kEach = kOutputs * kWarps;
  return run(launch, a.rows <= 4 ? thin_kernel<4, kOutputs, 1> : thin_kernel<8, kOutputs, 1>,
             (a.outputs + kEach - 1) / kEach, kThreads, 0, a);
}

Code load_thin(int32_t device) {
  return load_kernels(device, thin_kernel<1, 2, 1>, thin_kernel<1, 2, 2>, thin_kernel<1, 2, 4>, thin_kernel<2, 2, 1>,
                      thin_kernel<2, 2, 2>, thin_kernel<2, 2, 4>, thin_kernel<4, 4, 1>, thin_kernel<8, 4, 1>);
}

}  // namespace weir::llm::cuda
