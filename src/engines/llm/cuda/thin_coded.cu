// Products of one or two rows with a weight in codes (device_matrix.h): as thin.cu, of which this reads a half or a
// quarter of the bytes. A lane takes eight inputs at a time. One and two rows have the same sums.
#include "engines/llm/cuda/codes.cuh"
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/weights.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
constexpr uint32_t kOutputs = 2, kAtOnce = 4;  // steps whose codes are on their way together

// The products of inputs [i, i + kPer) are added to the sums of all rows.
template <Format kFormat, uint32_t kRows>
__device__ void add_step(float (&sum)[kRows][kOutputs], const LoadedCodes<kFormat> (&pieces)[kOutputs], const Matmul& a,
                         uint32_t i) {
  float v[kOutputs][kPer];
#pragma unroll
  for (uint32_t o = 0; o < kOutputs; ++o) widen(v[o], expand<kFormat>(pieces[o].codes));
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    float x[kPer];
    load(x, a.x + size_t(r) * a.inputs + i);
    add_products<kFormat>(sum[r], x, v, pieces, a.weight.offsets != 0);
  }
}

// kRows: a.rows. kSplit: warps that share the inputs of the same outputs. The first codes are on their way before x is
// there.
template <Format kFormat, uint32_t kRows, uint32_t kSplit>
__global__ void __launch_bounds__(kThreads) thin_coded_kernel(Matmul a) {
  constexpr uint32_t kTurn = kStep * kAtOnce;
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t first = (blockIdx.x * (kWarps / kSplit) + warp / kSplit) * kOutputs;
  const unsigned char* rows[kOutputs];
#pragma unroll
  for (uint32_t o = 0; o < kOutputs; ++o) rows[o] = row_of<kFormat>(a.weight, min(first + o, a.outputs - 1), a.inputs);

  const uint32_t begin = warp % kSplit * kTurn + lane * kPer;
  LoadedCodes<kFormat> pieces[kAtOnce][kOutputs];
  load_codes(pieces, rows, begin, kStep, a.weight, a.inputs);
  await_inputs();
  float sum[kRows][kOutputs] = {};
  for (uint32_t base = begin; base < a.inputs; base += kTurn * kSplit) {
    if (base != begin) load_codes(pieces, rows, base, kStep, a.weight, a.inputs);
#pragma unroll
    for (uint32_t s = 0; s < kAtOnce; ++s) {
      if (base + s * kStep >= a.inputs) break;
      add_step<kFormat>(sum, pieces[s], a, base + s * kStep);
    }
  }
  float mine = 0;
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) {
      const float all = warp_sum(sum[r][o]);
      if (lane == r * kOutputs + o) mine = all;
    }
  mine = join_team<kWarps, kSplit, kRows * kOutputs>(mine);
  const uint32_t row = lane / kOutputs, output = first + lane % kOutputs;
  if (warp % kSplit == 0 && row < kRows && output < a.outputs) put_product(a, row, output, mine);
}

// How the inputs are shared depends on the weight's shape alone (thin.cu).
template <Format kFormat, uint32_t kRows>
Code start(const Launch& launch, const Matmul& a) {
  constexpr uint32_t kFewOutputs = 8192, kManyInputs = 4096;
  const uint32_t split = a.outputs <= kFewOutputs && a.inputs >= kManyInputs ? 4 : 1;
  const uint32_t each = kOutputs * kWarps / split, blocks = (a.outputs + each - 1) / each;
  auto kernel = split == 4 ? thin_coded_kernel<kFormat, kRows, 4> : thin_coded_kernel<kFormat, kRows, 1>;
  return run(launch, kernel, blocks, kThreads, 0, a);
}

template <Format kFormat>
Code start(const Launch& launch, const Matmul& a) {
  return a.rows == 1 ? start<kFormat, 1>(launch, a) : start<kFormat, 2>(launch, a);
}

template <Format kFormat>
Code load_of(int32_t device) {
  return load_kernels(device, thin_coded_kernel<kFormat, 1, 1>, thin_coded_kernel<kFormat, 1, 4>,
                      thin_coded_kernel<kFormat, 2, 1>, thin_coded_kernel<kFormat, 2, 4>);
}

}  // namespace

Code thin_coded_matmul(const Launch& launch, const Matmul& a) {
  return with_format(a.weight.format, [&](auto format) { return start<format.value>(launch, a); });
}

Code load_thin_coded(int32_t device) {
  return with_each_format([device](auto format) { return load_of<format.value>(device); });
}

}  // namespace weir::llm::cuda
