// Kernels that go over rows once: embedding, norm, gates, gather, patches. A thread takes kPer neighbouring elements
// at a time, 16 bytes where widths allow it; widths are even.
#include "engines/llm/cuda/gates.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kHeld = 4;  // pieces of a row that a thread of add_norm keeps

// to[0, width) = from[0, width) times scale, by the whole block.
template <uint32_t kPer, class To, class From>
__device__ void copy_row(To* to, const From* from, uint32_t width, float scale = 1) {
  for (uint32_t i = threadIdx.x * kPer; i < width; i += blockDim.x * kPer) {
    float x[kPer];
    load(x, from + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) x[j] *= scale;
    store(to + i, x);
  }
}

template <uint32_t kPer>
__global__ void embed_kernel(Embed a) {
  await_inputs();
  uint32_t id = a.ids[blockIdx.x];
  if (a.sampled && id & kSampled) id = a.sampled[id & ~kSampled];
  if (id == kNoToken) id = 0;
  copy_row<kPer>(a.stream + size_t(blockIdx.x) * a.hidden, a.table + size_t(id) * a.hidden, a.hidden, a.scale);
}

template <uint32_t kPer>
__global__ void patch_kernel(Patch a) {
  await_inputs();
  copy_row<kPer>(a.stream + size_t(a.tokens[blockIdx.x]) * a.hidden, a.features + size_t(blockIdx.x) * a.hidden,
                 a.hidden);
}

template <class Word>
__global__ void gather_kernel(Gather a) {
  await_inputs();
  const uint32_t words = a.width / (sizeof(Word) / sizeof(Bf16));
  auto* to = reinterpret_cast<Word*>(a.out) + size_t(blockIdx.x) * words;
  const auto* from = reinterpret_cast<const Word*>(a.in) + size_t(a.which[blockIdx.x]) * words;
  for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}

// The row stays in registers between the two passes; the weight is on its way while the sum is made.
// kNorm: else rows are only rounded.
template <uint32_t kPer, bool kNorm>
__global__ void __launch_bounds__(1024) add_norm_kernel(AddNorm a) {
  await_inputs();
  float* stream = a.stream + size_t(blockIdx.x) * a.hidden;
  const Bf16* delta = a.delta ? a.delta + size_t(blockIdx.x) * a.hidden : nullptr;
  Bf16* out = a.out + size_t(blockIdx.x) * a.hidden;
  float* exact = a.exact ? a.exact + size_t(blockIdx.x) * a.hidden : nullptr;
  float x[kHeld][kPer], w[kHeld][kPer], squares = 0;
#pragma unroll
  for (uint32_t h = 0; h < kHeld; ++h) {
    uint32_t i = (h * blockDim.x + threadIdx.x) * kPer;
    if (i >= a.hidden) continue;
    load(x[h], stream + i);
    if constexpr (kNorm) load(w[h], a.weight + i);
    if (delta) {
      float d[kPer];
      load(d, delta + i);
#pragma unroll
      for (uint32_t j = 0; j < kPer; ++j) x[h][j] += d[j];
      store(stream + i, x[h]);
    }
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) squares += x[h][j] * x[h][j];
  }
  float factor = rsqrtf(block_sum(squares) / float(a.hidden) + a.epsilon);
#pragma unroll
  for (uint32_t h = 0; h < kHeld; ++h) {
    uint32_t i = (h * blockDim.x + threadIdx.x) * kPer;
    if (i >= a.hidden) continue;
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) x[h][j] *= kNorm ? factor * (w[h][j] + a.offset) : 1.f;
    store(out + i, x[h]);
    if (exact) store(exact + i, x[h]);
  }
}

template <uint32_t kPer, Gate kGate>
__global__ void swiglu_kernel(SwiGlu a) {
  await_inputs();
  const Bf16* in = a.gate_up + size_t(blockIdx.x) * 2 * a.width;
  uint32_t i = (blockIdx.y * blockDim.x + threadIdx.x) * kPer;
  if (i >= a.width) return;
  float gate[kPer], up[kPer];
  load(gate, in + i);
  load(up, in + a.width + i);
  if (a.bias) {
    float b[kPer], c[kPer];
    load(b, a.bias + i);
    load(c, a.bias + a.width + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) gate[j] += b[j], up[j] += c[j];
  }
#pragma unroll
  for (uint32_t j = 0; j < kPer; ++j) gate[j] = gated<kGate>(gate[j], up[j]);
  store(a.out + size_t(blockIdx.x) * a.width + i, gate);
}

template <Gate kGate>
auto swiglu_of(uint32_t per) {
  return per == 2 ? swiglu_kernel<2, kGate> : swiglu_kernel<8, kGate>;
}

}  // namespace

Code embed(const Launch& launch, const Embed& a) {
  if (a.hidden % 2) return kBadShape;
  if (a.tokens == 0) return 0;
  auto kernel = a.hidden % 8 ? embed_kernel<2> : embed_kernel<8>;
  return run(launch, kernel, a.tokens, threads_for(a.hidden / 8, kThreads), 0, a);
}

Code patch(const Launch& launch, const Patch& a) {
  if (a.hidden % 2) return kBadShape;
  if (a.count == 0) return 0;
  auto kernel = a.hidden % 4 ? patch_kernel<2> : patch_kernel<4>;
  return run(launch, kernel, a.count, threads_for(a.hidden / 4, kThreads), 0, a);
}

Code add_norm(const Launch& launch, const AddNorm& a) {
  uint32_t per = a.hidden % 4 ? 2 : 4;
  if (a.hidden % 2 || a.hidden > 1024 * kHeld * per) return kBadShape;
  if (a.tokens == 0) return 0;
  auto kernel = a.weight ? (per == 2 ? add_norm_kernel<2, true> : add_norm_kernel<4, true>)
                         : (per == 2 ? add_norm_kernel<2, false> : add_norm_kernel<4, false>);
  return run(launch, kernel, a.tokens, threads_for(a.hidden / per, 1024), 0, a);
}

Code swiglu(const Launch& launch, const SwiGlu& a) {
  uint32_t per = a.width % 8 ? 2 : 8, blocks = (a.width / per + kThreads - 1) / kThreads;
  if (a.width % 2 || blocks > 65535) return kBadShape;
  if (a.tokens == 0 || a.width == 0) return 0;
  auto kernel = a.kind == Gate::kSilu       ? swiglu_of<Gate::kSilu>(per)
                : a.kind == Gate::kGeluTanh ? swiglu_of<Gate::kGeluTanh>(per)
                                            : swiglu_of<Gate::kClamped>(per);
  return run(launch, kernel, dim3(a.tokens, blocks), kThreads, 0, a);
}

Code gather(const Launch& launch, const Gather& a) {
  if (a.width % 2) return kBadShape;
  if (a.count == 0) return 0;
  auto kernel = a.width % 8 ? gather_kernel<uint32_t> : gather_kernel<uint4>;
  return run(launch, kernel, a.count, threads_for(a.width / 8, kThreads), 0, a);
}

Code load_rows(int32_t device) {
  return load_kernels(device, embed_kernel<2>, embed_kernel<8>, patch_kernel<2>, patch_kernel<4>,
                      gather_kernel<uint32_t>, gather_kernel<uint4>, add_norm_kernel<2, true>,
                      add_norm_kernel<4, true>, add_norm_kernel<2, false>, add_norm_kernel<4, false>,
                      swiglu_of<Gate::kSilu>(2), swiglu_of<Gate::kSilu>(8), swiglu_of<Gate::kGeluTanh>(2),
                      swiglu_of<Gate::kGeluTanh>(8), swiglu_of<Gate::kClamped>(2), swiglu_of<Gate::kClamped>(8));
}

}  // namespace weir::llm::cuda
