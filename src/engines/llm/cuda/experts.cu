// Which experts a row goes to, pairs sorted by expert, and the sum of what the experts answer. Nothing depends on the
// order in which threads arrive: counts are integers, sums go in the order of a row's experts.
#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 4, kThreads = kWarps * kWarp;
constexpr uint32_t kPlaceWarps = 16, kPlaceThreads = kPlaceWarps * kWarp;

// Integers in the order of the scores, all above 0; NaN is -inf.
__device__ uint32_t order_of(float score) {
  uint32_t bits = __float_as_uint(score != score ? -INFINITY : score + 0.f);  // the two zeros are equal
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ float score_of(uint32_t order) {
  return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

struct Best {
  uint32_t expert, order;
};

// The best of those whose bit is not set in `taken`, where lane l has experts l, l + 32, …
__device__ Best take_best(const float* scores, uint32_t count, uint32_t& taken) {
  const uint32_t lane = threadIdx.x % kWarp;
  uint32_t most = 0, at = 0;
  for (uint32_t i = 0; lane + i * kWarp < count; ++i) {
    const uint32_t order = taken >> i & 1 ? 0 : order_of(scores[lane + i * kWarp]);
    if (order > most) most = order, at = i;
  }
  const uint32_t order = __reduce_max_sync(kAllLanes, most);
  const uint32_t expert = __reduce_min_sync(kAllLanes, most == order && order > 0 ? at * kWarp + lane : UINT32_MAX);
  if (expert % kWarp == lane) taken |= 1u << expert / kWarp;
  return {expert, order};
}

// A warp has a row; lane i its choice i.
__global__ void __launch_bounds__(kThreads) route_kernel(Route a) {
  await_inputs();
  const uint32_t lane = threadIdx.x % kWarp, row = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (row >= a.rows) return;
  const float* scores = a.scores + size_t(row) * a.stride;
  uint32_t taken = 0;
  Best mine{UINT32_MAX, 0};
  float best = 0;
  for (uint32_t i = 0; i < a.used; ++i) {
    const Best next = take_best(scores, a.count, taken);
    if (i == 0) best = score_of(next.order);
    if (lane == i) mine = next;
  }
  float all = 0;
  if (a.of == Route::kOfAll) {
    for (uint32_t e = lane; e < a.count; e += kWarp) all += expf(score_of(order_of(scores[e])) - best);
    all = warp_sum(all);
  }
  const float share = lane < a.used ? expf(score_of(mine.order) - best) : 0.f;
  if (a.of == Route::kOfUsed) all = warp_sum(share);
  uint32_t before = 0;
  for (uint32_t i = 0; i < a.used; ++i) before += __shfl_sync(kAllLanes, mine.expert, int(i)) < mine.expert;
  if (lane >= a.used) return;
  a.experts[size_t(row) * a.used + before] = mine.expert;
  a.shares[size_t(row) * a.used + before] = share / all * a.scale;
}

// The sum over all threads of a block of kPlaceWarps, in every thread.
__device__ uint32_t block_count(uint32_t value) {
  __shared__ uint32_t counts[kPlaceWarps];
  value = __reduce_add_sync(kAllLanes, value);
  __syncthreads();  // of an earlier use
  if (threadIdx.x % kWarp == 0) counts[threadIdx.x / kWarp] = value;
  __syncthreads();
  uint32_t all = 0;
  for (uint32_t w = 0; w < kPlaceWarps; ++w) all += counts[w];
  return all;
}

// Pairs of one expert, from order[first] on, in ascending order.
__device__ void collect_pairs(const PlacePairs& a, uint32_t expert, uint32_t first) {
  __shared__ uint32_t found[kPlaceWarps];
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (uint32_t base = 0; base < a.pairs; base += kPlaceThreads) {
    const uint32_t pair = base + threadIdx.x;
    const bool mine = pair < a.pairs && a.experts[pair] == expert;
    const uint32_t votes = __ballot_sync(kAllLanes, mine);
    __syncthreads();  // of the turn before
    if (lane == 0) found[warp] = uint32_t(__popc(votes));
    __syncthreads();
    uint32_t before = first;
    for (uint32_t w = 0; w < kPlaceWarps; ++w) {
      if (w < warp) before += found[w];
      first += found[w];
    }
    if (mine) a.order[before + uint32_t(__popc(votes & ((1u << lane) - 1)))] = pair;
  }
}

// A block has an expert. Each counts all pairs: that is quicker than a block that tells the others.
__global__ void __launch_bounds__(kPlaceThreads) place_kernel(PlacePairs a, uint32_t rows, uint32_t tiles) {
  __shared__ uint32_t pairs_of[kMostExperts];
  await_inputs();
  const uint32_t expert = blockIdx.x;
  for (uint32_t e = threadIdx.x; e < a.count; e += kPlaceThreads) pairs_of[e] = 0;
  __syncthreads();
  for (uint32_t p = threadIdx.x; p < a.pairs; p += kPlaceThreads)
    if (const uint32_t e = a.experts[p]; e < a.count) atomicAdd(&pairs_of[e], 1u);
  __syncthreads();
  uint32_t pairs = 0, tile = 0;
  for (uint32_t e = threadIdx.x; e < expert; e += kPlaceThreads)
    pairs += pairs_of[e], tile += (pairs_of[e] + rows - 1) / rows;
  const uint32_t first = block_count(pairs), first_tile = block_count(tile), mine = pairs_of[expert];
  const uint32_t used = (mine + rows - 1) / rows;
  for (uint32_t t = threadIdx.x; t < used && first_tile + t < tiles; t += kPlaceThreads)
    a.tiles[first_tile + t] = {expert, first + t * rows, min(rows, mine - t * rows)};
  if (expert + 1 == a.count)
    for (uint32_t t = first_tile + used + threadIdx.x; t < tiles; t += kPlaceThreads) a.tiles[t] = {0, 0, 0};
  if (mine > 0) collect_pairs(a, expert, first);
}

template <uint32_t kPer>
__global__ void add_experts_kernel(AddExperts a) {
  await_inputs();
  const size_t row = blockIdx.x;
  const uint32_t i = (blockIdx.y * blockDim.x + threadIdx.x) * kPer;
  if (i >= a.hidden) return;
  float x[kPer], y[kPer];
  load(x, a.stream + row * a.hidden + i);
  for (uint32_t u = 0; u < a.used; ++u) {
    const float share = a.shares[row * a.used + u];
    load(y, a.answers + (row * a.used + u) * a.hidden + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) x[j] = fmaf(share, y[j], x[j]);
  }
  if (a.shared) {
    const float gate = a.scale / (1.f + expf(-a.scores[row * a.stride + a.gate]));
    load(y, a.shared + row * a.hidden + i);
#pragma unroll
    for (uint32_t j = 0; j < kPer; ++j) x[j] = fmaf(gate, y[j], x[j]);
  }
  store(a.stream + row * a.hidden + i, x);
}

}  // namespace

Code route(const Launch& launch, const Route& a) {
  if (a.count == 0 || a.count > kMostExperts || a.used == 0 || a.used > a.count || a.used > kMostUsed ||
      a.stride < a.count)
    return kBadShape;
  if (a.rows == 0) return 0;
  return run(launch, route_kernel, (a.rows + kWarps - 1) / kWarps, kThreads, 0, a);
}

Code place_pairs(const Launch& launch, const PlacePairs& a) {
  if (a.count == 0 || a.count > kMostExperts) return kBadShape;
  if (a.pairs == 0) return 0;
  return run(launch, place_kernel, a.count, kPlaceThreads, 0, a, expert_tile_rows(a.pairs, a.count),
             expert_tiles(a.pairs, a.count));
}

Code add_experts(const Launch& launch, const AddExperts& a) {
  constexpr uint32_t kAddThreads = 256;
  const uint32_t per = a.hidden % 4 ? 2 : 4, blocks = (a.hidden / per + kAddThreads - 1) / kAddThreads;
  if (a.hidden % 2 || blocks > 65535) return kBadShape;
  if (a.rows == 0) return 0;
  return run(launch, per == 2 ? add_experts_kernel<2> : add_experts_kernel<4>, dim3(a.rows, blocks), kAddThreads, 0, a);
}

Code load_experts(int32_t device) {
  return load_kernels(device, route_kernel, place_kernel, add_experts_kernel<2>, add_experts_kernel<4>);
}

}  // namespace weir::llm::cuda
