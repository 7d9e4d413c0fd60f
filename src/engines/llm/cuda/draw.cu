// Drawing a token on the device. One block per row.
//
// Logits are compared as integers that keep their order (order_of), and weights are added as 64-bit integers, so that
// sums do not depend on the order in which threads come by. The candidates of top-k and top-p are found without
// sorting: the value of the last one that is kept is found digit by digit, 8 bits at a time, by histogram.
#include <cfloat>

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kThreads = 512, kWarps = kThreads / kWarp, kDigits = 256;
constexpr float kOne = 1099511627776.f;  // 2^40: the weight of the likeliest token. 2^20 of them fit into 64 bits.

__device__ uint32_t order_of(float value) {
  uint32_t bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The same number as the CPU engine's sampler draws.
__device__ double uniform(uint64_t seed, uint64_t number) {
  uint64_t x = mix(mix(seed + 0x9e3779b97f4a7c15ull) + (number + 1) * 0x9e3779b97f4a7c15ull);
  return double(x >> 11) * 0x1p-53;
}

// Which tokens may be drawn: those above `order`, and of those equal to it the first `equal` by id.
struct Kept {
  uint32_t order = 0;
  uint32_t equal = UINT32_MAX;
};

struct Row {
  const float* logits;
  uint32_t size;
  float highest, temperature;

  __device__ uint64_t weight(float logit) const {
    return uint64_t(expf((logit - highest) / temperature) * kOne);  // -inf: 0
  }
};

struct Best {
  uint32_t order, id;
};
__device__ Best better(Best a, Best b) { return a.order > b.order || (a.order == b.order && a.id < b.id) ? a : b; }

__device__ Best find_best(const float* logits, uint32_t size) {
  __shared__ Best bests[kWarps];
  Best best{0, UINT32_MAX};
  for (uint32_t i = threadIdx.x; i < size; i += kThreads) best = better(best, {order_of(logits[i]), i});
  for (uint32_t step = kWarp / 2; step > 0; step /= 2)
    best = better(best, {__shfl_xor_sync(kAllLanes, best.order, step), __shfl_xor_sync(kAllLanes, best.id, step)});
  if (threadIdx.x % kWarp == 0) bests[threadIdx.x / kWarp] = best;
  __syncthreads();
  best = bests[0];
  for (uint32_t w = 1; w < kWarps; ++w) best = better(best, bests[w]);
  return best;
}

// The tokens of the largest orders, as many as make up `share` (a count, or a weight) of `mass(i)`. The mass of what
// is above the last one is less than the share; with it the share is reached. kept: what was kept before this.
template <class Mass>
__device__ Kept keep_share(const Row& row, Kept kept, uint64_t share, Mass mass) {
  __shared__ unsigned long long histogram[kDigits];
  __shared__ uint32_t found_digit;
  __shared__ unsigned long long found_above;
  uint32_t prefix = 0;
  uint64_t above = 0;  // mass of all that is above the present prefix
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (uint32_t d = threadIdx.x; d < kDigits; d += kThreads) histogram[d] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < row.size; i += kThreads) {
      uint32_t order = order_of(row.logits[i]);
      bool here = shift == 24 || order >> (shift + 8) == prefix >> (shift + 8);
      if (here && order >= kept.order) atomicAdd(&histogram[order >> shift & 255], mass(row.logits[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t sum = above;
      int digit = kDigits - 1;
      for (; digit > 0 && sum + histogram[digit] < share; --digit) sum += histogram[digit];
      found_digit = uint32_t(digit), found_above = sum;
    }
    __syncthreads();
    prefix |= found_digit << shift;
    above = found_above;
    __syncthreads();
  }
  // How many of the equal ones: each has the same mass.
  uint64_t each = mass(__uint_as_float(prefix & 0x80000000u ? prefix & 0x7fffffffu : ~prefix));
  uint64_t equal = each == 0 ? 1 : (share - above + each - 1) / each;
  if (prefix < kept.order) return kept;  // the share is more than there is
  if (prefix == kept.order && equal > kept.equal) equal = kept.equal;
  return {prefix, uint32_t(equal > UINT32_MAX ? UINT32_MAX : equal)};
}

// The ids [from, to) of one warp. The warps share a row in order, so that ids can be counted from the front.
struct Segment {
  uint32_t from, to;
};
__device__ Segment segment_of(uint32_t size) {
  uint32_t each = (size + kWarps - 1) / kWarps, from = threadIdx.x / kWarp * each;
  return {min(from, size), min(from + each, size)};
}

// Of every warp's value the sum of those before it; the total into `total`.
__device__ unsigned long long before_me(unsigned long long value, unsigned long long& total) {
  __shared__ unsigned long long values[kWarps];
  __syncthreads();
  if (threadIdx.x % kWarp == 0) values[threadIdx.x / kWarp] = value;
  __syncthreads();
  unsigned long long before = 0;
  total = 0;
  for (uint32_t w = 0; w < kWarps; ++w) {
    if (w < threadIdx.x / kWarp) before += values[w];
    total += values[w];
  }
  return before;
}

__device__ unsigned long long warp_sum64(unsigned long long value) {
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// Goes over the warp's segment, 32 ids at a time; `each(id, weight)` gets 0 for what is not kept.
template <class Each>
__device__ void walk(const Row& row, Kept kept, float least, uint32_t equal_before, Each each) {
  auto [from, to] = segment_of(row.size);
  uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t first = from; first < to; first += kWarp) {
    uint32_t id = first + lane;
    float logit = id < to ? row.logits[id] : -FLT_MAX;
    uint32_t order = order_of(logit);
    uint32_t equals = __ballot_sync(kAllLanes, id < to && order == kept.order);
    uint32_t rank = equal_before + __popc(equals & ((1u << lane) - 1));
    bool in = id < to && logit >= least && (order > kept.order || (order == kept.order && rank < kept.equal));
    equal_before += __popc(equals);
    if (!each(id, in ? row.weight(logit) : 0ull)) return;
  }
}

__device__ uint32_t draw_one(const Row& row, Kept kept, float least, double random, uint32_t likeliest) {
  auto [from, to] = segment_of(row.size);
  uint32_t lane = threadIdx.x % kWarp;
  unsigned long long equals = 0, total = 0, weight = 0;
  for (uint32_t i = from + lane; i < to; i += kWarp) equals += order_of(row.logits[i]) == kept.order;
  uint32_t equal_before = uint32_t(before_me(warp_sum64(equals), total));
  walk(row, kept, least, equal_before, [&](uint32_t, unsigned long long w) {
    weight += w;
    return true;
  });
  weight = warp_sum64(weight);
  unsigned long long sum = before_me(weight, total);
  __shared__ uint32_t drawn;
  if (threadIdx.x == 0) drawn = likeliest;  // when nothing has weight
  __syncthreads();
  auto target = (unsigned long long)(random * double(total));
  if (target >= total && total > 0) target = total - 1;  // rounded up
  if (target >= sum && target < sum + weight) {          // one warp
    walk(row, kept, least, equal_before, [&](uint32_t id, unsigned long long w) {
      unsigned long long upto = w;
      for (uint32_t step = 1; step < kWarp; step *= 2) {
        unsigned long long other = __shfl_up_sync(kAllLanes, upto, step);
        if (lane >= step) upto += other;
      }
      if (target >= sum + upto - w && target < sum + upto) drawn = id;
      sum += __shfl_sync(kAllLanes, upto, kWarp - 1);
      return target >= sum;  // the same in all lanes
    });
  }
  __syncthreads();
  return drawn;
}

__global__ void __launch_bounds__(kThreads) draw_kernel(Draw a) {
  const float* logits = a.logits + size_t(blockIdx.x) * a.vocabulary;
  DrawRow wish = a.wishes[blockIdx.x];
  Best best = find_best(logits, a.vocabulary);
  Row row{logits, a.vocabulary, logits[best.id], wish.temperature};
  uint32_t id = best.id;
  if (wish.temperature > 0) {
    Kept kept;
    auto weight = [&](float logit) -> unsigned long long { return row.weight(logit); };
    if (wish.top_k > 0 && wish.top_k < a.vocabulary)
      kept = keep_share(row, kept, wish.top_k, [](float) -> unsigned long long { return 1; });
    if (wish.top_p < 1) {
      // Of what is left: its weight first.
      auto [from, to] = segment_of(a.vocabulary);
      unsigned long long equals = 0, sum = 0, total = 0;
      for (uint32_t i = from + threadIdx.x % kWarp; i < to; i += kWarp) equals += order_of(logits[i]) == kept.order;
      uint32_t equal_before = uint32_t(before_me(warp_sum64(equals), total));
      walk(row, kept, -INFINITY, equal_before, [&](uint32_t, unsigned long long w) {
        sum += w;
        return true;
      });
      before_me(warp_sum64(sum), total);
      auto share = (unsigned long long)(double(wish.top_p) * double(total));
      kept = keep_share(row, kept, share > 0 ? share : 1, weight);
    }
    float least = wish.min_p > 0 ? row.highest + wish.temperature * logf(wish.min_p) : -INFINITY;
    id = draw_one(row, kept, least, uniform(wish.seed, wish.number), best.id);
  }
  if (a.logprobs) {
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < a.vocabulary; i += kThreads) sum += expf(logits[i] - row.highest);
    sum = block_sum(sum);
    if (threadIdx.x == 0) a.logprobs[blockIdx.x] = logits[id] - row.highest - logf(sum);
  }
  if (threadIdx.x == 0) a.ids[blockIdx.x] = id;
}

}  // namespace

Code draw(const Launch& launch, const Draw& a) {
  if (a.vocabulary == 0 || a.vocabulary >= 1u << 20) return kBadShape;
  if (a.rows == 0) return 0;
  return run(launch, draw_kernel, a.rows, kThreads, 0, a);
}

}  // namespace weir::llm::cuda
