// A norm and the product behind it, for one or two rows, as one kernel: the norm's factor is one number for a row, so
// that each warp, which reads the row anyhow, sums the squares beside its products and multiplies at the end. A warp
// takes two rows of the weight, a gate and the `up` that goes with it, whose SwiGLU it then is; or two warps share the
// inputs of two neighbours, which are few: one warp each would leave the memory waiting.
#include "engines/llm/cuda/codes.cuh"
#include "engines/llm/cuda/gates.cuh"
#include "engines/llm/cuda/matmul.h"
#include "engines/llm/cuda/weights.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
constexpr uint32_t kOutputs = 2, kAtOnce = 4;  // steps whose weights are on their way together

constexpr uint32_t kSums = kOutputs + 1;  // of a row: the products', and that of the squares

// A lane's sums of a row.
struct RowSums {
  float sums[kSums] = {};

  // Takes in the inputs [i, i + kPer); `v`: what the pieces' codes stand for.
  template <Format kFormat>
  __device__ void add(const float* stream, const float (&norm)[kPer], const float (&v)[kOutputs][kPer],
                      const LoadedCodes<kFormat> (&pieces)[kOutputs], bool offsets) {
    constexpr bool kCoded = kFormat != Format::kBf16;
    float x[kPer], coded[kOutputs] = {}, inputs = 0;
    load(x, stream);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) {
      sums[kOutputs] = fmaf(x[j], x[j], sums[kOutputs]);
      float y = x[j] * norm[j];
      if (kCoded) inputs += y;
#pragma unroll
      for (uint32_t o = 0; o < kOutputs; ++o) {
        float& sum = kCoded ? coded[o] : sums[o];
        sum = fmaf(y, v[o][j], sum);
      }
    }
    if constexpr (kCoded)
#pragma unroll
      for (uint32_t o = 0; o < kOutputs; ++o) {
        sums[o] = fmaf(pieces[o].scale, coded[o], sums[o]);
        if (offsets) sums[o] = fmaf(pieces[o].offset, inputs, sums[o]);
      }
  }
};

// The products of the normalised rows, in all lanes of the team.
template <uint32_t kRows, uint32_t kSplit>
__device__ void finish(float (&products)[kRows][kOutputs], const RowSums (&rows)[kRows], const NormMatmul& a) {
  float mine = 0;  // sum i of row r in lane r * kSums + i
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r)
#pragma unroll
    for (uint32_t i = 0; i < kSums; ++i) {
      const float all = warp_sum(rows[r].sums[i]);
      if (threadIdx.x % kWarp == r * kSums + i) mine = all;
    }
  mine = join_team<kWarps, kSplit, kRows * kSums>(mine);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    const float squares = __shfl_sync(kAllLanes, mine, int(r * kSums + kOutputs));
    const float factor = rsqrtf(squares / float(a.inputs) + a.epsilon);
#pragma unroll
    for (uint32_t o = 0; o < kOutputs; ++o) products[r][o] = __shfl_sync(kAllLanes, mine, int(r * kSums + o)) * factor;
  }
}

// Adds the products of the inputs [i, i + kPer) to the sums of all rows.
template <Format kFormat, uint32_t kRows>
__device__ void add_step(RowSums (&sums)[kRows], const LoadedCodes<kFormat> (&w)[kOutputs], const NormMatmul& a,
                         uint32_t i) {
  float norm[kPer], v[kOutputs][kPer];
  load(norm, a.norm + i);
  if (a.offset != 0)
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) norm[j] += a.offset;
#pragma unroll
  for (uint32_t o = 0; o < kOutputs; ++o) widen(v[o], expand<kFormat>(w[o].codes));
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r)
    sums[r].add(a.stream + size_t(r) * a.inputs + i, norm, v, w, a.weight.offsets != 0);
}

// As the two kernels would, which round in between.
__device__ Bf16 finish_gate(const NormMatmul& a, const float (&product)[kOutputs], uint32_t output) {
  float gate = widen(narrow(product[0])), up = widen(narrow(product[1]));
  if (a.bias) gate += a.bias[output], up += a.bias[a.outputs + output];
  return narrow(gated(a.kind, gate, up));
}

template <NormMatmul::Into kInto>
constexpr uint32_t kSplitOf = kInto == NormMatmul::kSwiGlu ? 1 : 2;  // warps of a team

// kRows: a.rows.
template <Format kFormat, uint32_t kRows, NormMatmul::Into kInto>
__global__ void __launch_bounds__(kThreads) norm_matmul_kernel(NormMatmul a) {
  constexpr bool kGates = kInto == NormMatmul::kSwiGlu;
  constexpr uint32_t kSplit = kSplitOf<kInto>, kTurn = kStep * kAtOnce;
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t first = (blockIdx.x * (kWarps / kSplit) + warp / kSplit) * (kGates ? 1 : kOutputs);
  uint32_t mine = min(first, a.outputs - 1), other = kGates ? mine + a.outputs : min(first + 1, a.outputs - 1);
  const unsigned char* weight[kOutputs] = {row_of<kFormat>(a.weight, mine, a.inputs),
                                           row_of<kFormat>(a.weight, other, a.inputs)};
  const uint32_t begin = warp % kSplit * kTurn + lane * kPer;
  LoadedCodes<kFormat> w[kAtOnce][kOutputs];
  load_codes(w, weight, begin, kStep, a.weight, a.inputs);
  await_inputs();
  RowSums sums[kRows];
  for (uint32_t base = begin; base < a.inputs; base += kTurn * kSplit) {
    if (base != begin) load_codes(w, weight, base, kStep, a.weight, a.inputs);
#pragma unroll
    for (uint32_t s = 0; s < kAtOnce; ++s) {
      uint32_t i = base + s * kStep;
      if (i >= a.inputs) break;
      add_step(sums, w[s], a, i);
    }
  }
  float products[kRows][kOutputs];
  finish<kRows, kSplit>(products, sums, a);
  if (first >= a.outputs || warp % kSplit) return;
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    Bf16* out = a.out + size_t(r) * a.outputs + first;
    if (kGates && lane == 0) *out = finish_gate(a, products[r], first);
    if (!kGates && lane < kOutputs && first + lane < a.outputs) out[lane] = narrow(products[r][lane ? 1 : 0]);
  }
}

bool is_aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

template <Format kFormat>
Code start(const Launch& launch, const NormMatmul& a) {
  constexpr auto kPlain = NormMatmul::kPlain, kSwiGlu = NormMatmul::kSwiGlu;
  const bool gates = a.into == kSwiGlu;
  const uint32_t each = gates ? kWarps / kSplitOf<kSwiGlu> : kWarps / kSplitOf<kPlain> * kOutputs;
  auto kernel = a.rows == 1
                    ? (gates ? norm_matmul_kernel<kFormat, 1, kSwiGlu> : norm_matmul_kernel<kFormat, 1, kPlain>)
                    : (gates ? norm_matmul_kernel<kFormat, 2, kSwiGlu> : norm_matmul_kernel<kFormat, 2, kPlain>);
  return run(launch, kernel, (a.outputs + each - 1) / each, kThreads, 0, a);
}

template <Format kFormat>
Code load_of(int32_t device) {
  constexpr auto kPlain = NormMatmul::kPlain, kSwiGlu = NormMatmul::kSwiGlu;
  return load_kernels(device, norm_matmul_kernel<kFormat, 1, kSwiGlu>, norm_matmul_kernel<kFormat, 1, kPlain>,
                      norm_matmul_kernel<kFormat, 2, kSwiGlu>, norm_matmul_kernel<kFormat, 2, kPlain>);
}

}  // namespace

Code norm_matmul(const Launch& launch, const NormMatmul& a) {
  if (a.rows > kNormRows || a.inputs == 0 || a.inputs % kPer || !is_aligned(a.stream) || !is_aligned(a.norm) ||
      !is_aligned(a.weight.data) || (a.weight.format != Format::kBf16 && !is_coded_right(a.weight, a.inputs)))
    return kBadShape;
  if (a.rows == 0 || a.outputs == 0) return 0;
  if (a.weight.format == Format::kBf16) return start<Format::kBf16>(launch, a);
  return with_format(a.weight.format, [&](auto format) { return start<format.value>(launch, a); });
}

Code load_normed(int32_t device) {
  const Code code = load_of<Format::kBf16>(device);
  return code ? code : with_each_format([device](auto format) { return load_of<format.value>(device); });
}

}  // namespace weir::llm::cuda
