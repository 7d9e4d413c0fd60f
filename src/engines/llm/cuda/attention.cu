// Decode attention over paged keys and values, split along the sequence.
//
// A block takes one row, one key head with all query heads that share it, and one part of kPartition positions, so that
// every key and value is read once. Parts begin at multiples of kPartition whatever the batch is, and are merged in
// order: a row's result is the same alone and in any batch. Within a part each of the four warps takes every fourth
// group of four positions; a lane holds dim / 32 neighbouring dimensions.
#include <cfloat>

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
constexpr uint32_t kAtOnce = 4;  // positions whose keys and values are on their way together
constexpr float kNone = -FLT_MAX;

template <uint32_t kPer>
__device__ void load(float (&out)[kPer], const Bf16* from) {
  auto* pairs = reinterpret_cast<const uint32_t*>(from);
#pragma unroll
  for (uint32_t i = 0; i < kPer / 2; ++i) {
    uint32_t both = pairs[i];
    out[2 * i] = __uint_as_float(both << 16), out[2 * i + 1] = __uint_as_float(both & 0xffff0000u);
  }
}

template <uint32_t kDim, uint32_t kGroup>
__global__ void __launch_bounds__(kThreads) part_kernel(DecodeAttention a) {
  constexpr uint32_t kPer = kDim / kWarp;
  uint32_t row = blockIdx.x, kv_head = blockIdx.y, part = blockIdx.z;
  uint32_t length = a.lengths[row];
  uint32_t begin = part * kPartition, end = min(length, begin + kPartition);
  uint32_t seen_from = a.window && length > a.window ? length - a.window : 0;
  if (begin >= length) return;  // the merge does not look at this part
  uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  uint32_t head = kv_head * kGroup;

  float q[kGroup][kPer], sum[kGroup][kPer] = {}, highest[kGroup], weight[kGroup] = {};
#pragma unroll
  for (uint32_t g = 0; g < kGroup; ++g) {
    load(q[g], a.q + (size_t(row) * a.heads + head + g) * kDim + lane * kPer);
    highest[g] = kNone;
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) q[g][i] *= a.scale;
  }

  const uint32_t* table = a.tables + size_t(row) * a.table_width;
  size_t stride = size_t(a.kv_heads) * kDim, offset = size_t(kv_head) * kDim + lane * kPer;
  for (uint32_t first = begin + warp * kAtOnce; first < end; first += kWarps * kAtOnce) {
    if (first + kAtOnce <= seen_from) continue;
    float k[kAtOnce][kPer], v[kAtOnce][kPer];
#pragma unroll
    for (uint32_t p = 0; p < kAtOnce; ++p) {
      uint32_t position = min(first + p, end - 1);  // beyond the end: read what is there, and ignore it
      size_t slot = size_t(table[position / a.block_size]) * a.block_size + position % a.block_size;
      load(k[p], a.k_cache + slot * stride + offset);
      load(v[p], a.v_cache + slot * stride + offset);
    }
#pragma unroll
    for (uint32_t g = 0; g < kGroup; ++g) {
      float score[kAtOnce], now = highest[g];
#pragma unroll
      for (uint32_t p = 0; p < kAtOnce; ++p) {
        float dot = 0;
#pragma unroll
        for (uint32_t i = 0; i < kPer; ++i) dot += q[g][i] * k[p][i];
        dot = warp_sum(dot);
        bool seen = first + p < end && first + p >= seen_from;
        score[p] = seen ? dot : kNone;
        now = fmaxf(now, score[p]);
      }
      if (now == kNone) continue;  // the same in all lanes
      float shrink = expf(highest[g] - now);
      highest[g] = now;
      weight[g] *= shrink;
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) sum[g][i] *= shrink;
#pragma unroll
      for (uint32_t p = 0; p < kAtOnce; ++p) {
        float w = score[p] == kNone ? 0.f : expf(score[p] - now);
        weight[g] += w;
#pragma unroll
        for (uint32_t i = 0; i < kPer; ++i) sum[g][i] += w * v[p][i];
      }
    }
  }

  // The four warps become one, in order.
  __shared__ float sums[kWarps][kGroup][kDim], highs[kWarps][kGroup], weights[kWarps][kGroup];
#pragma unroll
  for (uint32_t g = 0; g < kGroup; ++g) {
    if (lane == 0) highs[warp][g] = highest[g], weights[warp][g] = weight[g];
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) sums[warp][g][lane * kPer + i] = sum[g][i];
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < kGroup * kDim; i += kThreads) {
    uint32_t g = i / kDim, at = i % kDim;
    float top = kNone;
    for (uint32_t w = 0; w < kWarps; ++w) top = fmaxf(top, highs[w][g]);
    float all = 0, total = 0;
    for (uint32_t w = 0; w < kWarps; ++w) {
      float factor = highs[w][g] == kNone ? 0.f : expf(highs[w][g] - top);
      all += factor * sums[w][g][at];
      total += factor * weights[w][g];
    }
    size_t to = (size_t(row) * a.heads + head + g) * a.parts + part;
    a.part_out[to * kDim + at] = all;
    if (at == 0) a.part_max[to] = top, a.part_sum[to] = total;
  }
}

// One block per row and head, one thread per dimension.
__global__ void merge_kernel(DecodeAttention a) {
  uint32_t row = blockIdx.x, head = blockIdx.y, at = threadIdx.x;
  uint32_t parts = min((a.lengths[row] + kPartition - 1) / kPartition, a.parts);
  size_t from = (size_t(row) * a.heads + head) * a.parts;
  float top = kNone, all = 0, total = 0;
  for (uint32_t p = 0; p < parts; ++p) top = fmaxf(top, a.part_max[from + p]);
  for (uint32_t p = 0; p < parts; ++p) {
    if (a.part_max[from + p] == kNone) continue;  // wholly before the window
    float factor = expf(a.part_max[from + p] - top);
    all += factor * a.part_out[(from + p) * a.dim + at];
    total += factor * a.part_sum[from + p];
  }
  a.out[(size_t(row) * a.heads + head) * a.dim + at] = narrow(total > 0 ? all / total : 0.f);
}

template <uint32_t kDim>
Code parts(const Launch& launch, const DecodeAttention& a) {
  dim3 grid(a.rows, a.kv_heads, a.parts);
  switch (a.heads / a.kv_heads) {
    case 1: return run(launch, part_kernel<kDim, 1>, grid, kThreads, 0, a);
    case 2: return run(launch, part_kernel<kDim, 2>, grid, kThreads, 0, a);
    case 4: return run(launch, part_kernel<kDim, 4>, grid, kThreads, 0, a);
    case 8:
      if constexpr (kDim <= 128) {
        return run(launch, part_kernel<kDim, 8>, grid, kThreads, 0, a);
      }
      return kBadShape;  // more than the shared memory that every device has
    default: return kBadShape;
  }
}

}  // namespace

Code decode_attention(const Launch& launch, const DecodeAttention& a) {
  if (a.kv_heads == 0 || a.heads % a.kv_heads || a.block_size == 0 || a.parts > 65535 || a.kv_heads > 65535)
    return kBadShape;
  if (a.rows == 0) return 0;
  Code code = a.dim == 64    ? parts<64>(launch, a)
              : a.dim == 128 ? parts<128>(launch, a)
              : a.dim == 256 ? parts<256>(launch, a)
                             : Code(kBadShape);
  if (code) return code;
  return run(launch, merge_kernel, dim3(a.rows, a.heads), a.dim, 0, a);
}

}  // namespace weir::llm::cuda
