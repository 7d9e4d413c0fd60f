// Biases, head norms and rotary positions, and keys and values into the cache, in one go. A warp takes one head of one
// token; a lane takes two neighbouring dimensions and their partners, `pairs` further; where a head turns in part, what
// is left of it are partners that do not turn.
#include "engines/llm/cuda/cache_codes.cuh"

namespace weir::llm::cuda {
namespace {

constexpr uint32_t kWarps = 8, kThreads = kWarps * kWarp;
constexpr uint32_t kMostDim = 256;
constexpr uint32_t kPairs = kMostDim / 2 / (2 * kWarp);  // pairs of a half that a lane takes at most

struct Head {
  float first[kPairs][2], second[kPairs][2];
};

// Where pair `at` of a head is: dimensions that turn come before those that do not.
struct Place {
  uint32_t first, second;
  __device__ Place(uint32_t at, uint32_t half, uint32_t pairs)
      : first(at < pairs ? at : at + pairs), second(at + (at < pairs ? pairs : half)) {}
};

// The norm's weight times what makes the head's mean square one, applied to both halves.
__device__ void normalise(Head& x, const Bf16* weight, uint32_t dim, uint32_t pairs, float epsilon, float offset) {
  uint32_t lane = threadIdx.x % kWarp, half = dim / 2;
  float squares = 0;
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p)
    for (uint32_t j = 0; j < 2; ++j)
      squares += x.first[p][j] * x.first[p][j] + x.second[p][j] * x.second[p][j];  // 0 beyond the head
  float factor = rsqrtf(warp_sum(squares) / float(dim) + epsilon);
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    uint32_t at = 2 * (p * kWarp + lane);
    if (at >= half) continue;
    const Place place(at, half, pairs);
    float w[2], v[2];
    load(w, weight + place.first);
    load(v, weight + place.second);
    for (uint32_t j = 0; j < 2; ++j)
      x.first[p][j] *= factor * (w[j] + offset), x.second[p][j] *= factor * (v[j] + offset);
  }
}

// A head's dimensions of one token from the products, with their bias.
__device__ void load_head(Head& x, const Bf16* from, const float* bias, uint32_t half, uint32_t pairs) {
  uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    uint32_t at = 2 * (p * kWarp + lane);
    if (at >= half) continue;
    const Place place(at, half, pairs);
    load(x.first[p], from + place.first);
    load(x.second[p], from + place.second);
    if (!bias) continue;
    float b[2], c[2];
    load(b, bias + place.first);
    load(c, bias + place.second);
    for (uint32_t j = 0; j < 2; ++j) x.first[p][j] += b[j], x.second[p][j] += c[j];
  }
}

// Turned by its position.
__device__ void turn(Head& x, const float* sines, const float* cosines, uint32_t half) {
  uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    uint32_t at = 2 * (p * kWarp + lane);
    if (at >= half) continue;
    for (uint32_t j = 0; j < 2; ++j) {
      const float sine = sines[at + j], cosine = cosines[at + j], first = x.first[p][j], second = x.second[p][j];
      x.first[p][j] = first * cosine - second * sine;
      x.second[p][j] = second * cosine + first * sine;
    }
  }
}

__device__ void store_head(const Head& x, Bf16* to, uint32_t half, uint32_t pairs) {
  uint32_t lane = threadIdx.x % kWarp;
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    uint32_t at = 2 * (p * kWarp + lane);
    if (at >= half) continue;
    const Place place(at, half, pairs);
    store(to + place.first, x.first[p]);
    store(to + place.second, x.second[p]);
  }
}

// As codes, after it is rounded to bfloat16.
__device__ void store_codes(const Head& x, uint8_t* to, float* scale, KvCodes codes, uint32_t half, uint32_t pairs) {
  uint32_t lane = threadIdx.x % kWarp, most = 0;
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p)
    for (uint32_t j = 0; j < 2; ++j)
      most = max(most, max(magnitude(widen(narrow(x.first[p][j]))), magnitude(widen(narrow(x.second[p][j])))));
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) most = max(most, __shfl_xor_sync(kAllLanes, most, step));
  const Steps steps = steps_for(most, codes);
  auto pair_of = [&](const float(&two)[2]) {
    return uint16_t(code_of(widen(narrow(two[0])), steps, codes) | code_of(widen(narrow(two[1])), steps, codes) << 8);
  };
#pragma unroll
  for (uint32_t p = 0; p < kPairs; ++p) {
    uint32_t at = 2 * (p * kWarp + lane);
    if (at >= half) continue;
    const Place place(at, half, pairs);
    *reinterpret_cast<uint16_t*>(to + place.first) = pair_of(x.first[p]);
    *reinterpret_cast<uint16_t*>(to + place.second) = pair_of(x.second[p]);
  }
  if (lane == 0) *scale = steps.scale;
}

// A key or a value into its cache: `head` of the row's keys or values at a slot.
__device__ void store_cached(const Head& x, const RopeStore& a, uint32_t slot, uint32_t head, Of of, uint32_t half,
                             uint32_t pairs) {
  const size_t vector = size_t(slot) * a.kv_heads + head;
  Bf16* cache = of == Of::kValues ? a.v_cache : a.k_cache;
  if (a.codes == KvCodes::kNone)
    store_head(x, cache + vector * a.dim, half, pairs);
  else
    store_codes(x, reinterpret_cast<uint8_t*>(cache) + vector * a.dim, a.scales + 2 * vector + uint32_t(of), a.codes,
                half, pairs);
}

__global__ void __launch_bounds__(kThreads) rope_store_kernel(RopeStore a) {
  await_inputs();
  __shared__ float sines[kMostDim / 2], cosines[kMostDim / 2];
  uint32_t token = blockIdx.x, half = a.dim / 2, pairs = a.pairs ? a.pairs : half;
  auto position = float(a.positions[token]);
  for (uint32_t i = threadIdx.x; i < half; i += kThreads) {
    // The exact sincosf: positions reach tens of thousands of radians, where the fast one is of no use.
    float sine, cosine;
    sincosf(i < pairs ? position * a.frequencies[i] : 0.f, &sine, &cosine);
    sines[i] = sine * a.scale, cosines[i] = i < pairs ? cosine * a.scale : 1.f;
  }
  __syncthreads();

  uint32_t head = blockIdx.y * kWarps + threadIdx.x / kWarp;
  uint32_t all = a.heads + 2 * a.kv_heads, slot = a.slots[token];
  bool query = head < a.heads, value = head >= a.heads + a.kv_heads;
  if (head >= all || (!query && slot == kNoSlot)) return;
  Head x = {};
  load_head(x, a.qkv + (size_t(token) * all + head) * a.dim, a.bias ? a.bias + size_t(head) * a.dim : nullptr, half,
            pairs);
  if (a.q_norm && !value) normalise(x, query ? a.q_norm : a.k_norm, a.dim, pairs, a.epsilon, a.offset);

  if (!value) turn(x, sines, cosines, half);
  if (query)
    store_head(x, a.q + (size_t(token) * a.heads + head) * a.dim, half, pairs);
  else
    store_cached(x, a, slot, (head - a.heads) % a.kv_heads, value ? Of::kValues : Of::kKeys, half, pairs);
}

}  // namespace

Code rope_store(const Launch& launch, const RopeStore& a) {
  if (a.dim % 4 || a.dim > kMostDim || a.pairs % 2 || 2 * a.pairs > a.dim || (!a.q_norm != !a.k_norm) ||
      (a.codes != KvCodes::kNone && !a.scales))
    return kBadShape;
  if (a.tokens == 0) return 0;
  uint32_t blocks = (a.heads + 2 * a.kv_heads + kWarps - 1) / kWarps;
  return run(launch, rope_store_kernel, dim3(a.tokens, blocks), kThreads, 0, a);
}

Code load_rope(int32_t device) { return load_kernels(device, rope_store_kernel); }

}  // namespace weir::llm::cuda
