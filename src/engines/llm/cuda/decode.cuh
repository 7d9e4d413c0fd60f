// The parts of decode.cu that belong to a warp: what it holds of its heads, and how the warps become one. Its shapes of
// shared memory, too.
#pragma once

#include "engines/llm/cuda/cache_codes.cuh"
#include "engines/llm/cuda/paged.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kSlice = 16;  // positions that a warp takes together
constexpr uint32_t kHeads = kHeadsTogether;
static_assert(kHeads == 8 && kPartition % kSlice == 0);

template <uint32_t kDim>
constexpr uint32_t kWarps = kDim == 256 ? 2 : 4;
template <uint32_t kDim>
constexpr uint32_t kThreads = kWarps<kDim>* kWarp;
// Slices of a warp in shared memory, one of which is used: of codes twice as many others, so that as many bytes are on
// their way.
template <uint32_t kDim, KvCodes kCodes>
constexpr uint32_t kStages = kCodes == KvCodes::kNone ? (kDim == 64 ? 3 : 2) : (kDim == 64 ? 5 : 3);
// Keys of a slice; its values are behind them, and of codes the scales of both.
template <uint32_t kDim, KvCodes kCodes>
constexpr uint32_t kSliceSize = kSlice* kCacheRow<kDim, kCodes>;
template <uint32_t kDim, KvCodes kCodes>
constexpr uint32_t kStage = 2 * kSliceSize<kDim, kCodes> +
                            (kCodes == KvCodes::kNone ? 0 : kSlice * 2 * sizeof(float) / sizeof(Bf16));
template <uint32_t kDim>
constexpr uint32_t kQueryRow = kDim + 8;  // so that the rows of a column lie in different banks

// Each warp's slices and the queries; when all is summed, the teams' results instead of the slices.
template <uint32_t kDim, KvCodes kCodes>
constexpr size_t kShared = (size_t(kWarps<kDim>) * kStages<kDim, kCodes> * kStage<kDim, kCodes> +
                            kHeads * kQueryRow<kDim>)*sizeof(Bf16);

// Element 8 * chunk of a position.
template <uint32_t kDim, KvCodes kCodes>
__device__ uint32_t at(uint32_t row, uint32_t chunk) {
  return swizzled<kCacheRow<kDim, kCodes>>(row, chunk);
}

// kExtras of all that follows: scores may be capped, and heads may have sinks. Where neither is, no register is for it.
// kCodes: how keys and values are kept.

// A weighted sum of values over the sum of the weights.
__device__ Bf16 finished(float all, float total) { return narrow(total > 0 ? all / total : 0.f); }

// The part of a row that a block takes.
struct Part {
  uint32_t row, kv_head, index;
  uint32_t group;  // query heads
  uint32_t first;  // of them, among the row's
  size_t head;     // and among all rows'
  uint32_t length, from, end;

  __device__ explicit Part(const DecodeAttention& a) : row(blockIdx.x), index(blockIdx.z) {
    const uint32_t all = a.heads / a.kv_heads, blocks = (all + kHeads - 1) / kHeads;
    kv_head = blockIdx.y / blocks;
    const uint32_t before = blockIdx.y % blocks * kHeads;
    group = min(kHeads, all - before), first = kv_head * all + before;
    head = size_t(row) * a.heads + first;
    length = a.lengths[row];
    const uint32_t begin = index * kPartition;
    end = min(length, begin + kPartition);
    from = max(begin, a.window && length > a.window ? length - a.window : 0u);
  }
};

// The partial result of each warp, for the whole block to read.
template <uint32_t kDim>
struct Results {
  float sums[kWarps<kDim>][kHeads][kDim];
  float highs[kWarps<kDim>][kHeads], weights[kWarps<kDim>][kHeads];

  // The warps become one, in order.
  template <bool kExtras>
  __device__ void merge(const DecodeAttention& a, const Part& part) const {
    for (uint32_t i = threadIdx.x; i < part.group * kDim; i += kThreads<kDim>) {
      uint32_t g = i / kDim, d = i % kDim;
      float top = kNone, all = 0, total = 0;
      for (uint32_t w = 0; w < kWarps<kDim>; ++w) top = fmaxf(top, highs[w][g]);
      for (uint32_t w = 0; w < kWarps<kDim>; ++w) {
        float factor = highs[w][g] == kNone ? 0.f : exp2f(highs[w][g] - top);
        all += factor * sums[w][g][d];
        total += factor * weights[w][g];
      }
      if (a.parts == 1) {
        a.out[part.head * kDim + i] = finished(all, total + (kExtras ? sink_weight(a.sinks, part.first + g, top) : 0));
        continue;
      }
      size_t to = (part.head + g) * a.parts + part.index;
      a.part_out[to * kDim + d] = all;
      if (d == 0) a.part_max[to] = top, a.part_sum[to] = total;
    }
  }
};

// A warp's heads over its slices. Lane l holds of head l / 4 the pairs of dimensions 8 d + 2 (l % 4); of codes those of
// 16 e + 4 (l % 4), the even ones in out[2 e], the odd ones in out[2 e + 1].
template <uint32_t kDim, KvCodes kCodes>
struct Running {
  static constexpr uint32_t kSteps = kDim / 16;
  static constexpr bool kCoded = kCodes != KvCodes::kNone;

  static constexpr bool kHold = !kCoded || kDim <= 128;  // queries stay in registers

  const Bf16* lane_queries;
  uint32_t held[kHold ? kSteps : 1][2];
  float out[kDim / 8][2] = {}, highest = kNone, sum = 0;

  __device__ void query(uint32_t (&q)[2], uint32_t step) const {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half)
      q[half] = *reinterpret_cast<const uint32_t*>(lane_queries + step * 16 + half * (kCoded ? 2 : 8));
  }
  __device__ void hold(const Bf16* from) {
    uint32_t lane = threadIdx.x % kWarp;
    lane_queries = from + lane / 4 * kQueryRow<kDim> + lane % 4 * (kCoded ? 4 : 2);
    if constexpr (kHold)
#pragma unroll
      for (uint32_t step = 0; step < kSteps; ++step) query(held[step], step);
  }

  __device__ void score(float (&s)[2][2], const Bf16* keys) {
    if constexpr (kCoded) return score_codes(s, keys);
    uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
    for (uint32_t step = 0; step < kSteps; ++step) {
      uint32_t k[4];
      load_matrices(k, keys + at<kDim, kCodes>(lane % 8 + lane / 16 * 8, step * 2 + lane / 8 % 2));
      mma_upper(s[0], held[step], k[0], k[1]);
      mma_upper(s[1], held[step], k[2], k[3]);
    }
  }
  // Two steps at a time: a matrix has sixteen dimensions.
  __device__ void score_codes(float (&s)[2][2], const Bf16* keys) {
    uint32_t lane = threadIdx.x % kWarp;
#pragma unroll kHold ? kSteps / 2 : 1
    for (uint32_t step = 0; step < kSteps; step += 2) {
      uint32_t k[4];
      load_matrices(k, keys + at<kDim, kCodes>(lane % 8 + lane / 16 * 8, step + lane / 8 % 2));
#pragma unroll
      for (uint32_t m = 0; m < 2; ++m) {
        uint32_t q[2];
        if constexpr (kHold)
          q[0] = held[step + m][0], q[1] = held[step + m][1];
        else
          query(q, step + m);
        mma_upper(s[0], q, widen_pair<kCodes, 0, 1>(k[m]), widen_pair<kCodes, 2, 3>(k[m]));
        mma_upper(s[1], q, widen_pair<kCodes, 0, 1>(k[m + 2]), widen_pair<kCodes, 2, 3>(k[m + 2]));
      }
    }
    multiply<Of::kKeys>(s, keys);
  }
  // By the scales that lie behind a slice.
  template <Of kOf>
  __device__ void multiply(float (&s)[2][2], const Bf16* keys) {
    const auto* scales = reinterpret_cast<const float*>(keys + 2 * kSliceSize<kDim, kCodes>) + threadIdx.x % 4 * 4;
    multiply_scales<kOf>(s[0][0], s[0][1], scales);
    multiply_scales<kOf>(s[1][0], s[1][1], scales + 16);
  }

  // Scores of the positions from `base` on become weights; those outside of [from, end) have none.
  // `scale` makes them units of log 2, or with a cap what capped() takes.
  template <bool kExtras>
  __device__ void weigh(float (&s)[2][2], uint32_t base, const Part& part, float scale, float cap) {
    uint32_t lane = threadIdx.x % kWarp;
    float top = -INFINITY;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t position = base + i / 2 * 8 + lane % 4 * 2 + i % 2;
      float& score = s[i / 2][i % 2];
      score *= scale;
      if (kExtras && cap > 0) score = capped(score, cap);
      if (position < part.from || position >= part.end) score = -INFINITY;
      top = fmaxf(top, score);
    }
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
    float now = fmaxf(highest, top), shrink = exp2f(highest - now);
    highest = now, sum *= shrink;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) sum += s[i / 2][i % 2] = exp2f(s[i / 2][i % 2] - now);
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; ++d) out[d][0] *= shrink, out[d][1] *= shrink;
  }

  // Values lie behind the keys.
  __device__ void add(float (&s)[2][2], const Bf16* keys) {
    if constexpr (kCoded) multiply<Of::kValues>(s, keys);
    const Bf16* values = keys + kSliceSize<kDim, kCodes>;
    uint32_t lane = threadIdx.x % kWarp;
    const uint32_t weights[2] = {narrow2(s[0][0], s[0][1]), narrow2(s[1][0], s[1][1])};
#pragma unroll
    for (uint32_t d = 0; d < kCacheRow<kDim, kCodes> / 8; d += 2) {
      uint32_t v[4];
      load_transposed(v, values + at<kDim, kCodes>(lane % 16, d + lane / 16));
#pragma unroll
      for (uint32_t m = 0; m < 4; m += 2) add_products(d + m / 2, weights, v[m], v[m + 1]);
    }
  }
  // The products with matrix `d` of the values: eight dimensions, or sixteen of codes.
  __device__ void add_products(uint32_t d, const uint32_t (&weights)[2], uint32_t first, uint32_t second) {
    if constexpr (kCoded) {
      mma_upper(out[2 * d], weights, widen_pair<kCodes, 0, 2>(first), widen_pair<kCodes, 0, 2>(second));
      mma_upper(out[2 * d + 1], weights, widen_pair<kCodes, 1, 3>(first), widen_pair<kCodes, 1, 3>(second));
    } else {
      mma_upper(out[d], weights, first, second);
    }
  }

  __device__ void put(Results<kDim>& results) {
    uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, head = lane / 4;
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    if (lane % 4 == 0) results.highs[warp][head] = highest, results.weights[warp][head] = sum;
    float* to = results.sums[warp][head];
#pragma unroll
    for (uint32_t d = 0; d < kDim / 8; ++d) {
      if constexpr (!kCoded)
        store(to + d * 8 + lane % 4 * 2, out[d]);
      else if (d % 2 == 0)
        store(to + d * 8 + lane % 4 * 4, {out[d][0], out[d + 1][0], out[d][1], out[d + 1][1]});
    }
  }
};

}  // namespace
}  // namespace weir::llm::cuda
