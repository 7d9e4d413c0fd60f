// Decode attention over paged keys and values, split along the sequence.
//
// A block takes one row, one key head with all query heads that share it, and one part of kPartition positions, so that
// every key and value is read once. Parts begin at multiples of kPartition whatever the batch is, and the block that
// comes last merges them in order: a row's result is the same alone and in any batch. A lane holds eight dimensions, 16 bytes; the lanes that
// make up a head are a team, and each team of the block takes every so many-th four positions by itself. Scores are in
// units of log 2.
//
// nvcc 13.0 for sm_90a takes 64, 95, 145 and 246 registers for kGroup 1, 2, 4 and 8, and spills none: 8, 5, 3 and 2
// blocks per multiprocessor, each with up to 16 KiB of keys and values on their way.
#include "engines/llm/cuda/paged.cuh"
#include "engines/llm/cuda/turned.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
constexpr uint32_t kPer = 8;
constexpr uint32_t kAtOnce = 4;  // positions whose keys and values are on their way together

// A team's partial result over its positions, for each query head.
template <uint32_t kGroup>
struct Running {
  float sum[kGroup][kPer] = {}, highest[kGroup], weight[kGroup] = {};

  // Takes in the scores and values of some more positions; a score of kNone is none.
  __device__ void add(float (&score)[kGroup][kAtOnce], const uint4 (&values)[kAtOnce], uint32_t group) {
#pragma unroll
    for (uint32_t g = 0; g < kGroup; ++g) {
      if (g >= group) continue;
      float now = highest[g];
#pragma unroll
      for (uint32_t p = 0; p < kAtOnce; ++p) now = fmaxf(now, score[g][p]);
      float shrink = exp2f(highest[g] - now);
      highest[g] = now;
      weight[g] *= shrink;
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) sum[g][i] *= shrink;
#pragma unroll
      for (uint32_t p = 0; p < kAtOnce; ++p) {
        score[g][p] = score[g][p] == kNone ? 0.f : exp2f(score[g][p] - now);
        weight[g] += score[g][p];
      }
    }
#pragma unroll
    for (uint32_t p = 0; p < kAtOnce; ++p) {
      float v[kPer];
      widen(v, values[p]);
#pragma unroll
      for (uint32_t g = 0; g < kGroup; ++g) {
        if (g >= group) continue;
#pragma unroll
        for (uint32_t i = 0; i < kPer; ++i) sum[g][i] += score[g][p] * v[i];
      }
    }
  }
};

// A weighted sum of values over the sum of the weights.
__device__ Bf16 finished(float all, float total) { return narrow(total > 0 ? all / total : 0.f); }

// The partial result of each team of a block, for all of them to read.
template <uint32_t kStreams, uint32_t kGroup, uint32_t kDim>
struct Teams {
  float sums[kStreams][kGroup][kDim];
  float highs[kStreams][kGroup], weights[kStreams][kGroup];

  // `at`: the first dimension that the lane holds.
  __device__ void put(const Running<kGroup>& mine, uint32_t stream, uint32_t at) {
#pragma unroll
    for (uint32_t g = 0; g < kGroup; ++g) {
      if (at == 0) highs[stream][g] = mine.highest[g], weights[stream][g] = mine.weight[g];
      store(&sums[stream][g][at], mine.sum[g]);
    }
  }
  // The teams become one, in order; `head` is the first query head.
  __device__ void merge(const DecodeAttention& a, size_t head, uint32_t group, uint32_t part) const {
    for (uint32_t i = threadIdx.x; i < group * kDim; i += kThreads) {
      uint32_t g = i / kDim, d = i % kDim;
      float top = kNone, all = 0, total = 0;
      for (uint32_t s = 0; s < kStreams; ++s) top = fmaxf(top, highs[s][g]);
      for (uint32_t s = 0; s < kStreams; ++s) {
        float factor = highs[s][g] == kNone ? 0.f : exp2f(highs[s][g] - top);
        all += factor * sums[s][g][d];
        total += factor * weights[s][g];
      }
      if (a.parts == 1) {
        a.out[(head + g) * kDim + d] = finished(all, total);
        continue;
      }
      size_t to = (head + g) * a.parts + part;
      a.part_out[to * kDim + d] = all;
      if (d == 0) a.part_max[to] = top, a.part_sum[to] = total;
    }
  }
};

// The scores of the positions from `first` on; those outside of [from, end) get kNone. kLanes hold a head.
template <uint32_t kLanes, uint32_t kGroup>
__device__ void add_scores(float (&score)[kGroup][kAtOnce], const float (&q)[kGroup][kPer],
                           const uint4 (&keys)[kAtOnce], uint32_t group, uint32_t first, uint32_t from, uint32_t end) {
#pragma unroll
  for (uint32_t p = 0; p < kAtOnce; ++p) {
    float key[kPer];
    widen(key, keys[p]);
    bool seen = first + p >= from && first + p < end;
#pragma unroll
    for (uint32_t g = 0; g < kGroup; ++g) {
      if (g >= group) continue;
      float dot = 0;
#pragma unroll
      for (uint32_t i = 0; i < kPer; ++i) dot += q[g][i] * key[i];
#pragma unroll
      for (uint32_t step = kLanes / 2; step > 0; step /= 2) dot += __shfl_xor_sync(kAllLanes, dot, step);
      score[g][p] = seen ? dot : kNone;
    }
  }
}

// The positions [from, end) of a row that a team takes: every so many-th kAtOnce of them from `base` on.
template <uint32_t kDim, uint32_t kGroup>
__device__ void take_positions(const DecodeAttention& a, Running<kGroup>& mine, const float (&q)[kGroup][kPer],
                               uint32_t row, uint32_t base, uint32_t from, uint32_t end) {
  constexpr uint32_t kLanes = kDim / kPer, kTeams = kWarp / kLanes, kStreams = kWarps * kTeams;
  uint32_t lane = threadIdx.x % kWarp, team = lane / kLanes, group = a.heads / a.kv_heads;
  Pages pages(a.tables + (a.starts ? a.starts[row] : size_t(row) * a.table_width), a.block_size);
  size_t stride = size_t(a.kv_heads) * kDim, offset = size_t(blockIdx.y) * kDim + lane % kLanes * kPer;
  for (; base < end; base += kStreams * kAtOnce) {
    if (base + kTeams * kAtOnce <= from) continue;
    uint32_t first = base + team * kAtOnce;
    uint4 k[kAtOnce], v[kAtOnce];
#pragma unroll
    for (uint32_t p = 0; p < kAtOnce; ++p) {
      // Positions that are not attended to are not read: their memory may hold anything. A neighbour is read instead,
      // and ignored.
      size_t slot = pages.slot(min(max(first + p, from), end - 1));
      k[p] = *reinterpret_cast<const uint4*>(a.k_cache + slot * stride + offset);
      v[p] = *reinterpret_cast<const uint4*>(a.v_cache + slot * stride + offset);
    }
    float score[kGroup][kAtOnce];
    add_scores<kLanes>(score, q, k, group, first, from, end);
    mine.add(score, v, group);
  }
}

// Whether this block is the last of its row's and head's to arrive, of `parts`: it sees what the others have written.
__device__ bool comes_last(const DecodeAttention& a, uint32_t parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t* arrived = a.arrived + blockIdx.x * a.kv_heads + blockIdx.y;
    last = atomicAdd(arrived, 1u) + 1 == parts;
    if (last) *arrived = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// The parts become one, in order; `head` is the first query head.
template <uint32_t kDim>
__device__ void merge_parts(const DecodeAttention& a, size_t head, uint32_t group, uint32_t parts) {
  for (uint32_t i = threadIdx.x; i < group * kDim; i += kThreads) {
    size_t from = (head + i / kDim) * a.parts;
    float top = kNone, all = 0, total = 0;
    for (uint32_t p = 0; p < parts; ++p) top = fmaxf(top, __ldcg(a.part_max + from + p));
    for (uint32_t p = 0; p < parts; ++p) {
      float highest = __ldcg(a.part_max + from + p);
      if (highest == kNone) continue;  // wholly before the window
      float factor = exp2f(highest - top);
      all += factor * __ldcg(a.part_out + (from + p) * kDim + i % kDim);
      total += factor * __ldcg(a.part_sum + from + p);
    }
    a.out[head * kDim + i] = finished(all, total);
  }
}

// The block's queries, times what makes scores of them.
template <uint32_t kDim, uint32_t kGroup>
__device__ void load_queries(float (&q)[kGroup][kPer], const DecodeAttention& a, const TurnedHead<kDim>& turned,
                             uint32_t first, uint32_t group) {
#pragma unroll
  for (uint32_t g = 0; g < kGroup; ++g) {
    if (g >= group) continue;
    if (a.turn.qkv)
      turned.get(q[g], first + g, a.turn.q_norm);
    else
      load(q[g], a.q + (size_t(turned.row) * a.heads + first + g) * kDim + turned.at);
#pragma unroll
    for (uint32_t i = 0; i < kPer; ++i) q[g][i] *= a.scale * kLog2E;
  }
}

// The positions [from, end) of a part, which is not empty.
template <uint32_t kDim, uint32_t kGroup>
__device__ void attend(const DecodeAttention& a, uint32_t part, uint32_t from, uint32_t end) {
  constexpr uint32_t kLanes = kDim / kPer, kTeams = kWarp / kLanes, kStreams = kWarps * kTeams;
  uint32_t row = blockIdx.x, kv_head = blockIdx.y, group = a.heads / a.kv_heads;
  uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, at = lane % kLanes * kPer;
  __shared__ Turn<kDim> turn;
  TurnedHead<kDim> turned{a.turn, turn, row, at};
  if (a.turn.qkv) {
    turn.make(a.turn, row);
    __syncthreads();
    if (end == a.lengths[row]) store_own(turned, a.k_cache, a.v_cache, kv_head);
    __syncthreads();
  }
  float q[kGroup][kPer];
  load_queries<kDim>(q, a, turned, kv_head * group, group);
  Running<kGroup> mine;
#pragma unroll
  for (uint32_t g = 0; g < kGroup; ++g) mine.highest[g] = kNone;
  take_positions<kDim>(a, mine, q, row, part * kPartition + warp * kTeams * kAtOnce, from, end);

  __shared__ __align__(16) Teams<kStreams, kGroup, kDim> teams;
  teams.put(mine, warp * kTeams + lane / kLanes, at);
  __syncthreads();
  teams.merge(a, size_t(row) * a.heads + kv_head * group, group, part);
}

// kGroup: at least heads / kv_heads.
template <uint32_t kDim, uint32_t kGroup>
__global__ void __launch_bounds__(kThreads) part_kernel(DecodeAttention a) {
  await_inputs();
  uint32_t row = blockIdx.x, kv_head = blockIdx.y, part = blockIdx.z;
  uint32_t length = a.lengths[row], group = a.heads / a.kv_heads;
  uint32_t begin = part * kPartition, end = min(length, begin + kPartition);
  size_t head = size_t(row) * a.heads + kv_head * group;
  if (begin >= length) {  // the merge does not look at this part; a row without positions has zeros
    for (uint32_t i = threadIdx.x; part == 0 && i < group * kDim; i += kThreads) a.out[head * kDim + i] = 0;
    return;
  }
  uint32_t from = max(begin, a.window && length > a.window ? length - a.window : 0u);
  if (from < end)
    attend<kDim, kGroup>(a, part, from, end);
  else if (threadIdx.x < group)  // wholly before the window
    a.part_max[(head + threadIdx.x) * a.parts + part] = kNone;
  if (a.parts == 1) return;  // a single part is the whole
  uint32_t parts = (length + kPartition - 1) / kPartition;
  if (comes_last(a, parts)) merge_parts<kDim>(a, head, group, parts);
}

template <uint32_t kDim>
Code parts(const Launch& launch, const DecodeAttention& a) {
  uint32_t group = a.heads / a.kv_heads;
  auto kernel = group == 1   ? part_kernel<kDim, 1>
                : group == 2 ? part_kernel<kDim, 2>
                : group <= 4 ? part_kernel<kDim, 4>
                             : part_kernel<kDim, 8>;
  return run(launch, kernel, dim3(a.rows, a.kv_heads, a.parts), kThreads, 0, a);
}

template <uint32_t kDim>
Code load_parts(int32_t device) {
  return load_kernels(device, part_kernel<kDim, 1>, part_kernel<kDim, 2>, part_kernel<kDim, 4>, part_kernel<kDim, 8>);
}

}  // namespace

Code decode_attention(const Launch& launch, const DecodeAttention& a) {
  if (a.kv_heads == 0 || a.heads == 0 || a.heads % a.kv_heads || a.heads / a.kv_heads > kMostHeadsPerGroup ||
      a.heads > 65535 || a.block_size == 0 || a.parts == 0 || a.parts > 65535)
    return kBadShape;
  if ((a.parts > 1 && !a.arrived) || (a.turn.qkv && (a.turn.dim != a.dim || !a.turn.q_norm != !a.turn.k_norm)))
    return kBadShape;
  if (a.rows == 0) return 0;
  return a.dim == 64    ? parts<64>(launch, a)
         : a.dim == 128 ? parts<128>(launch, a)
         : a.dim == 256 ? parts<256>(launch, a)
                        : Code(kBadShape);
}

Code load_decode(int32_t device) {
  Code code = 0;
  for (auto load : {load_parts<64>, load_parts<128>, load_parts<256>})
    if (code == 0) code = load(device);
  return code;
}

}  // namespace weir::llm::cuda
