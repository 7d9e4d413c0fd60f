// Queries, keys and values of a row on their way into its decode attention: with their biases, their norms and turned
// by their position, as rope.cu stores them. A lane holds eight neighbouring dimensions of a head, and the lanes that
// hold a head are neighbours.
#pragma once

#include "engines/llm/cuda/cache_codes.cuh"

namespace weir::llm::cuda {

constexpr uint32_t kTurnedPer = kTurnedTogether;
// Lanes that take a head, a power of two: of 96 dimensions the last four hold nothing.
template <uint32_t kDim>
constexpr uint32_t kTurnedLanes = kDim == 96 ? 16 : kDim / kTurnedPer;

// Dimensions [0, pairs) turn against [pairs, 2 * pairs).
template <uint32_t kDim>
__device__ uint32_t pairs_of(const RopeStore& a) {
  return a.pairs ? a.pairs : kDim / 2;
}

// Sines and cosines that turn the heads of one row; in shared memory.
template <uint32_t kDim>
struct Turn {
  float sines[kDim / 2], cosines[kDim / 2];

  // By all threads of the block, which meet afterwards.
  __device__ void make(const RopeStore& a, uint32_t row) {
    auto position = float(a.positions[row]);
    for (uint32_t i = threadIdx.x; i < pairs_of<kDim>(a); i += blockDim.x) {
      float sine, cosine;
      sincosf(position * a.frequencies[i], &sine, &cosine);
      sines[i] = sine * a.scale, cosines[i] = cosine * a.scale;
    }
  }
};

template <uint32_t kDim>
struct TurnedHead {
  const RopeStore& a;
  const Turn<kDim>& turn;
  uint32_t row, at;  // at: the lane's first dimension

  // Whether the lane has any of a head's dimensions.
  __device__ bool holds() const { return kTurnedLanes<kDim> * kTurnedPer == kDim || at < kDim; }

  // As it is, with its bias: from dimension `from` on. Zeros where the lane holds nothing.
  __device__ void load_head(float (&out)[kTurnedPer], uint32_t head, uint32_t from) const {
    if (!holds()) {
#pragma unroll
      for (uint32_t i = 0; i < kTurnedPer; ++i) out[i] = 0;
      return;
    }
    const size_t begin = size_t(head) * kDim + from;
    load(out, a.qkv + size_t(row) * (a.heads + 2 * a.kv_heads) * kDim + begin);
    if (!a.bias) return;
    float bias[kTurnedPer];
    load(bias, a.bias + begin);
#pragma unroll
    for (uint32_t i = 0; i < kTurnedPer; ++i) out[i] += bias[i];
  }

  // Head `head` of the row's qkv, rounded as it would be stored. All lanes of the warp take part.
  __device__ void get(float (&out)[kTurnedPer], uint32_t head, const Bf16* norm) const {
    const uint32_t pairs = pairs_of<kDim>(a);
    const bool first = at < pairs, turns = at < 2 * pairs;
    const uint32_t angle = first ? at : turns ? at - pairs : 0, partner = first ? at + pairs : angle;
    float other[kTurnedPer];
    load_head(out, head, at);
    load_head(other, head, partner);
    if (norm) normalise(out, other, norm, partner);
#pragma unroll
    for (uint32_t i = 0; i < kTurnedPer; ++i) {
      float sine = turn.sines[angle + i], cosine = turn.cosines[angle + i];
      float turned = first ? out[i] * cosine - other[i] * sine : out[i] * cosine + other[i] * sine;
      out[i] = widen(narrow(turns ? turned : out[i]));
    }
  }

 private:
  __device__ void normalise(float (&mine)[kTurnedPer], float (&other)[kTurnedPer], const Bf16* norm,
                            uint32_t partner) const {
    float squares = 0, w[kTurnedPer], v[kTurnedPer];
#pragma unroll
    for (uint32_t i = 0; i < kTurnedPer; ++i) squares += mine[i] * mine[i];
#pragma unroll
    for (uint32_t step = kTurnedLanes<kDim> / 2; step > 0; step /= 2)
      squares += __shfl_xor_sync(kAllLanes, squares, step);
    float factor = rsqrtf(squares / float(kDim) + a.epsilon);
    if (!holds()) return;
    load(w, norm + at);
    load(v, norm + partner);
#pragma unroll
    for (uint32_t i = 0; i < kTurnedPer; ++i)
      mine[i] *= factor * (w[i] + a.offset), other[i] *= factor * (v[i] + a.offset);
  }
};

// Eight numbers of a head as codes, after they are rounded to bfloat16. All lanes of the warp take part; gives the
// scale.
template <uint32_t kDim, KvCodes kCodes>
__device__ float to_codes(const float (&numbers)[kTurnedPer], uint32_t (&words)[kTurnedPer / 4]) {
  uint32_t most = 0;
#pragma unroll
  for (uint32_t i = 0; i < kTurnedPer; ++i) most = max(most, magnitude(widen(narrow(numbers[i]))));
#pragma unroll
  for (uint32_t step = kTurnedLanes<kDim> / 2; step > 0; step /= 2)
    most = max(most, __shfl_xor_sync(kAllLanes, most, step));
  const Steps steps = steps_for(most, kCodes);
#pragma unroll
  for (uint32_t i = 0; i < kTurnedPer; ++i) {
    const uint32_t code = code_of(widen(narrow(numbers[i])), steps, kCodes) << i % 4 * 8;
    words[i / 4] = i % 4 == 0 ? code : words[i / 4] | code;
  }
  return steps.scale;
}

// The row's key and value of one head go to their slot: the first warp stores the key, the second the value. A: what
// has the caches.
template <uint32_t kDim, KvCodes kCodes, class A>
__device__ void store_own(const TurnedHead<kDim>& head, const A& to, uint32_t kv_head) {
  const RopeStore& a = head.a;
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, slot = a.slots[head.row];
  if (slot == kNoSlot || warp > 1) return;
  float mine[kTurnedPer];
  if (warp == 0)
    head.get(mine, a.heads + kv_head, a.k_norm);
  else
    head.load_head(mine, a.heads + a.kv_heads + kv_head, head.at);
  const size_t vector = size_t(slot) * a.kv_heads + kv_head;
  Bf16* row = (warp == 0 ? to.k_cache : to.v_cache) + vector * kCacheRow<kDim, kCodes>;
  if constexpr (kCodes == KvCodes::kNone) {
    if (lane < kDim / kTurnedPer) store(row + head.at, mine);  // a warp holds more than one head of fewer dimensions
  } else {
    uint32_t words[kTurnedPer / 4];
    const float scale = to_codes<kDim, kCodes>(mine, words);
    if (lane < kDim / kTurnedPer) *reinterpret_cast<uint2*>(row + head.at / 2) = make_uint2(words[0], words[1]);
    if (lane == 0) to.scales[2 * vector + warp] = scale;
  }
}

}  // namespace weir::llm::cuda
