// Results made of hidden states: readouts and sums.
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 8, kThreads = kWarps * kWarp;

// A warp takes one token and one concept.
template <uint32_t kPer>
__global__ void __launch_bounds__(kThreads) read_out_kernel(ReadOut a) {
  await_inputs();
  uint32_t lane = threadIdx.x % kWarp, concept_id = blockIdx.y * kWarps + threadIdx.x / kWarp;
  if (concept_id >= a.concepts) return;
  const float* x = a.stream + size_t(a.tokens[blockIdx.x]) * a.hidden;
  const float* v = a.vectors + size_t(concept_id) * a.hidden;
  float sum = 0;
  for (uint32_t i = lane * kPer; i < a.hidden; i += kWarp * kPer) {
    float p[kPer], q[kPer];
    load(p, x + i);
    load(q, v + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) sum += p[j] * q[j];
  }
  sum = warp_sum(sum);
  if (lane == 0) a.out[size_t(blockIdx.x) * a.stride + concept_id] = sum;
}

// A thread takes two dimensions, and goes over the rows in their order.
template <class Element>
__global__ void __launch_bounds__(kThreads) pool_kernel(Pool a, const Element* rows) {
  await_inputs();
  uint32_t at = 2 * (blockIdx.y * kThreads + threadIdx.x);
  if (at >= a.hidden) return;
  PoolRange range = a.ranges[blockIdx.x];
  const Element* in = rows + size_t(range.first) * a.hidden + at;
  double sum[2] = {};
  if (range.before != kNoIndex) {
    const double* before = a.before + size_t(range.before) * a.hidden + at;
    sum[0] = before[0], sum[1] = before[1];
  }
#pragma unroll 8
  for (uint32_t t = 0; t < range.count; ++t) {
    float x[2];
    load(x, in + size_t(t) * a.hidden);
    sum[0] += double(x[0]), sum[1] += double(x[1]);
  }
  double* out = a.out + size_t(blockIdx.x) * a.hidden + at;
  out[0] = sum[0], out[1] = sum[1];
}

}  // namespace

Code read_out(const Launch& launch, const ReadOut& a) {
  uint32_t blocks = (a.concepts + kWarps - 1) / kWarps;
  if (a.hidden % 2 || blocks > 65535) return kBadShape;
  if (a.count == 0 || a.concepts == 0) return 0;
  return run(launch, a.hidden % 4 ? read_out_kernel<2> : read_out_kernel<4>, dim3(a.count, blocks), kThreads, 0, a);
}

Code pool(const Launch& launch, const Pool& a) {
  uint32_t blocks = (a.hidden / 2 + kThreads - 1) / kThreads;
  if (a.hidden % 2 || blocks > 65535) return kBadShape;
  if (a.count == 0 || a.hidden == 0) return 0;
  const dim3 grid(a.count, blocks);
  return a.exact ? run(launch, pool_kernel<float>, grid, kThreads, 0, a, a.exact)
                 : run(launch, pool_kernel<Bf16>, grid, kThreads, 0, a, a.in);
}

Code load_states(int32_t device) {
  return load_kernels(device, read_out_kernel<2>, read_out_kernel<4>, pool_kernel<Bf16>,
                      pool_kernel<float>);
}

}  // namespace weir::llm::cuda
