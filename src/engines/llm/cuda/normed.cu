// A norm and the product behind it, for one or two rows, as one kernel: the norm's factor is one number for a row, so
// that each warp, which reads all of the row anyhow, sums the squares beside its products and multiplies at the end. A
// warp takes two rows of the weight: neighbours, or a gate and the `up` that goes with it, whose SwiGLU it then is.
#include "engines/llm/cuda/weights.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
constexpr uint32_t kOutputs = 2, kAtOnce = 4;  // steps whose weights are on their way together

// A lane's sums of a row.
struct RowSums {
  float product[kOutputs] = {}, squares = 0;

  // Takes in the inputs [i, i + kPer).
  __device__ void add(const float* stream, const float (&norm)[kPer], const float (&v)[kOutputs][kPer]) {
    float x[kPer];
    load(x, stream);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) {
      squares = fmaf(x[j], x[j], squares);
      float y = x[j] * norm[j];
#pragma unroll
      for (uint32_t o = 0; o < kOutputs; ++o) product[o] = fmaf(y, v[o][j], product[o]);
    }
  }
  // The products of the normalised row, in all lanes.
  __device__ void finish(const NormMatmul& a) {
    float factor = rsqrtf(warp_sum(squares) / float(a.inputs) + a.epsilon);
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) product[o] = warp_sum(product[o]) * factor;
  }
};

// As the two kernels would, which round in between.
__device__ Bf16 gated(const NormMatmul& a, const float (&product)[kOutputs], uint32_t output) {
  float gate = widen(narrow(product[0])), up = widen(narrow(product[1]));
  if (a.bias) gate += a.bias[output], up += a.bias[a.outputs + output];
  return narrow(gate / (1.f + expf(-gate)) * up);
}

// kRows: a.rows.
template <uint32_t kRows, NormMatmul::Into kInto>
__global__ void __launch_bounds__(kThreads) norm_matmul_kernel(NormMatmul a) {
  constexpr bool kGates = kInto == NormMatmul::kSwiGlu;
  uint32_t lane = threadIdx.x % kWarp, first = (blockIdx.x * kWarps + threadIdx.x / kWarp) * (kGates ? 1 : kOutputs);
  uint32_t mine = min(first, a.outputs - 1), other = kGates ? mine + a.outputs : min(first + 1, a.outputs - 1);
  const Bf16* weight[kOutputs] = {a.weight + size_t(mine) * a.inputs, a.weight + size_t(other) * a.inputs};
  uint4 w[kAtOnce][kOutputs];
  load_weights(w, weight, lane * kPer, a.inputs);
  await_inputs();
  if (first >= a.outputs) return;
  RowSums sums[kRows];
  for (uint32_t base = lane * kPer; base < a.inputs; base += kStep * kAtOnce) {
    if (base >= kStep) load_weights(w, weight, base, a.inputs);
#pragma unroll
    for (uint32_t s = 0; s < kAtOnce; ++s) {
      uint32_t i = base + s * kStep;
      if (i >= a.inputs) break;
      float norm[kPer], v[kOutputs][kPer];
      load(norm, a.norm + i);
#pragma unroll
      for (uint32_t o = 0; o < kOutputs; ++o) widen(v[o], w[s][o]);
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) sums[r].add(a.stream + size_t(r) * a.inputs + i, norm, v);
    }
  }
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    sums[r].finish(a);
    Bf16* out = a.out + size_t(r) * a.outputs + first;
    if (kGates && lane == 0) *out = gated(a, sums[r].product, first);
    if (!kGates && lane < kOutputs && first + lane < a.outputs) out[lane] = narrow(sums[r].product[lane ? 1 : 0]);
  }
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

}  // namespace

Code norm_matmul(const Launch& launch, const NormMatmul& a) {
  if (a.rows > kNormRows || a.inputs == 0 || a.inputs % kPer || !is_aligned(a.stream) || !is_aligned(a.norm) ||
      !is_aligned(a.weight))
    return kBadShape;
  if (a.rows == 0 || a.outputs == 0) return 0;
  const bool gates = a.into == NormMatmul::kSwiGlu;
  const uint32_t each = kWarps * (gates ? 1 : kOutputs);
  auto kernel = a.rows == 1 ? (gates ? norm_matmul_kernel<1, NormMatmul::kSwiGlu> : norm_matmul_kernel<1, NormMatmul::kPlain>)
                            : (gates ? norm_matmul_kernel<2, NormMatmul::kSwiGlu> : norm_matmul_kernel<2, NormMatmul::kPlain>);
  return run(launch, kernel, (a.outputs + each - 1) / each, kThreads, 0, a);
}

Code load_normed(int32_t device) {
  return load_kernels(device, norm_matmul_kernel<1, NormMatmul::kSwiGlu>, norm_matmul_kernel<1, NormMatmul::kPlain>,
                      norm_matmul_kernel<2, NormMatmul::kSwiGlu>, norm_matmul_kernel<2, NormMatmul::kPlain>);
}

}  // namespace weir::llm::cuda
