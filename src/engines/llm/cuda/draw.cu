// Drawing a token on the device. One block per row.
#include "engines/llm/cuda/select.cuh"

namespace weir::llm::cuda {
namespace {

constexpr float kOne = 8589934592.f;  // 2^33: the weight of the likeliest token, as much as a Histogram takes

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

// The tokens that may be sampled, with their weights.
struct Choice {
  Logits logits;
  float sharpness;  // 1 over the temperature
  Kept kept;
  float least;  // logits below have no weight

  __device__ Mass weight(float logit) const {
    return logit >= least ? Mass(expf((logit - logits.highest) * sharpness) * kOne) : 0;  // -inf: 0
  }
};

// Ids [from, to) that hold the sampled one.
struct Range {
  uint32_t from, to;
  Mass equal_before;  // ids before `from` that are equal to the last one kept
  Mass below;         // weight before `from`
};

// The weight of the warp's part of a range, which becomes `part`; in all lanes. Parts of ranges that begin at a
// multiple of four do so, too.
__device__ Mass part_weight(const Choice& choice, const Range& range, Range& part) {
  uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  uint32_t each = max(((range.to - range.from + kSelectWarps - 1) / kSelectWarps + 3) / 4 * 4, kWarp);
  part.from = min(range.from + warp * each, range.to), part.to = min(part.from + each, range.to);
  Mass weight = 0, equals = 0, all = 0;
  auto take = [&](float logit) {
    uint32_t order = order_of(logit);
    weight += order > choice.kept.order ? choice.weight(logit) : 0;
    equals += order == choice.kept.order;
  };
  if (choice.logits.size % 4 == 0) {  // every row begins at a multiple of 16 bytes
#pragma unroll 4
    for (uint32_t id = part.from + lane * 4; id < part.to; id += kWarp * 4) {
      float four[4];
      load(four, choice.logits.at + id);
#pragma unroll
      for (float logit : four) take(logit);
    }
  } else {
#pragma unroll 4
    for (uint32_t id = part.from + lane; id < part.to; id += kWarp) take(choice.logits.at[id]);
  }
  weight = warp_total(weight), equals = warp_total(equals);
  part.equal_before = range.equal_before + before_me(equals, all);
  Mass left = choice.kept.equal > part.equal_before ? choice.kept.equal - part.equal_before : 0;
  return weight + min(left, equals) * choice.weight(value_of(choice.kept.order));
}

__device__ Mass kept_weight(const Choice& choice) {
  Range part;
  Mass total = 0;
  before_me(part_weight(choice, {0, choice.logits.size, 0, 0}, part), total);
  return total;
}

// Narrows down where the weight `random` of all lies, until a warp sees all ids that are left at once.
__device__ uint32_t draw_one(const Choice& choice, double random, uint32_t likeliest) {
  __shared__ Range shared_range;
  __shared__ uint32_t sampled;
  Range range{0, choice.logits.size, 0, 0};
  Mass target = 0;
  for (bool first = true; first || range.to - range.from > kWarp; first = false) {
    Range part;
    Mass weight = part_weight(choice, range, part), total = 0;
    part.below = range.below + before_me(weight, total);
    if (first) {
      if (total == 0) return likeliest;
      target = min(Mass(random * double(total)), total - 1);  // rounding up must not leave the range
    }
    if (threadIdx.x % kWarp == 0 && target >= part.below && target - part.below < weight) shared_range = part;
    __syncthreads();
    range = shared_range;
    __syncthreads();
  }
  if (threadIdx.x < kWarp) {
    uint32_t id = range.from + threadIdx.x;
    float logit = id < range.to ? choice.logits.at[id] : -INFINITY;
    uint32_t order = order_of(logit);
    uint32_t equals = __ballot_sync(kAllLanes, id < range.to && order == choice.kept.order);
    Mass rank = range.equal_before + Mass(__popc(equals & ((1u << threadIdx.x) - 1)));
    bool in = id < range.to && (order > choice.kept.order || (order == choice.kept.order && rank < choice.kept.equal));
    Mass weight = in ? choice.weight(logit) : 0, upto = range.below + warp_upto(weight);
    if (target < upto && target >= upto - weight) sampled = id;
  }
  __syncthreads();
  return sampled;
}

__global__ void __launch_bounds__(kSelectThreads, 1) draw_kernel(Draw a) {
  auto& room = *dynamic_shared<SelectRoom>();
  await_inputs();
  uint32_t from = a.from ? a.from[blockIdx.x] : blockIdx.x, to = a.to ? a.to[blockIdx.x] : blockIdx.x;
  const float* row = a.from && from & kAdjusted ? a.adjusted + size_t(from & ~kAdjusted) * a.vocabulary
                                                : a.logits + size_t(from) * a.vocabulary;
  DrawRow params = a.params[blockIdx.x];
  Logits logits{row, a.vocabulary, 0};
  Best best = find_best(logits);
  logits.highest = row[best.id];
  const bool none = best.order <= order_of(-INFINITY);
  uint32_t id = none ? kNoToken : best.id;
  if (params.temperature > 0 && !none) {
    Choice choice{logits, 1 / params.temperature, {}, -INFINITY};
    const bool counts = params.top_k > 0 && params.top_k < a.vocabulary;
    if (counts) choice.kept = keep_most(room, logits, choice.kept, params.top_k);
    if (params.top_p < 1) {  // of the weight that is left
      const Mass left = counts ? kept_weight(choice) : 0;
      choice.kept = keep_share(
          room, logits, choice.kept,
          [&](Mass all) { return max(Mass(double(params.top_p) * double(counts ? left : all)), Mass(1)); },
          [&](float l) { return choice.weight(l); });
    }
    if (params.min_p > 0) choice.least = logits.highest + params.temperature * logf(params.min_p);
    id = draw_one(choice, uniform(params.seed, params.number), best.id);
  }
  if (a.logprobs) {
    float sum = 0;
    logits.for_each([&](float logit, uint32_t) { sum += expf(logit - logits.highest); });
    sum = block_sum(sum);
    if (threadIdx.x == 0) a.logprobs[to] = none ? -INFINITY : row[id] - logits.highest - logf(sum);
  }
  if (threadIdx.x == 0) a.ids[to] = id;
}

}  // namespace

Code draw(const Launch& launch, const Draw& a) {
  if (a.vocabulary == 0 || a.vocabulary >= 1u << 20) return kBadShape;
  if (a.rows == 0) return 0;
  return run(launch, draw_kernel, a.rows, kSelectThreads, sizeof(SelectRoom), a);
}

Code load_draw(int32_t device) { return load_kernels(device, draw_kernel); }

}  // namespace weir::llm::cuda
