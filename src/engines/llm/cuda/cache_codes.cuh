// Keys and values as codes (attention_kernels.h): numbers to codes and back, and where products find them.
//
// A row of a cache, one vector, is seen as half as many Bf16 as it has numbers, two codes each, so that copies,
// swizzles and ldmatrix are those of bfloat16. A lane then gets four neighbouring numbers where it would get two:
// products take them as the pairs of rows 2t and 2t + 8 of their inputs, and queries lie in the same order. Of values,
// whose matrices are transposed, it gets two neighbouring numbers of two positions: the even ones are a tile of the
// product, the odd ones the next.
#pragma once

#include "engines/llm/cuda/code_pairs.cuh"
#include "engines/llm/cuda/mma.cuh"

namespace weir::llm::cuda {

// Bf16 that a vector takes.
template <uint32_t kDim, KvCodes kCodes>
constexpr uint32_t kCacheRow = kCodes == KvCodes::kNone ? kDim : kDim / 2;

// --- numbers to codes ------------------------------------------------------------------------------------------------

// A number's bits without its sign: those of an infinity or NaN are the largest of all.
__device__ inline uint32_t magnitude(float value) { return __float_as_uint(value) & 0x7fffffffu; }

struct Steps {
  float scale, factor;  // number = code * scale; code = number * factor, rounded
};
__device__ inline Steps steps_for(uint32_t most, KvCodes codes) {
  constexpr uint32_t kInfinity = 0x7f800000u;
  if (most >= kInfinity) return {__uint_as_float(kInfinity | 1u << 22), 0};
  const float scale = __uint_as_float(most) / (codes == KvCodes::kInt8 ? kMostInt8 : kMostFp8);
  const float factor = scale > 0 ? 1 / scale : 0.f;
  return {scale, magnitude(factor) < kInfinity ? factor : 0.f};  // not of a number that is next to nothing
}

// A number of at most 448 as E4M3: to the nearest, ties to even.
__device__ inline uint32_t fp8_of(float value) {
  const uint32_t bits = magnitude(value), sign = __float_as_uint(value) >> 24 & 0x80;
  if (bits < (127u - 6) << 23) return sign | uint32_t(rintf(__uint_as_float(bits) * 512));  // in steps of 2^-9
  return sign | (((bits + 0x7ffffu + (bits >> 20 & 1)) >> 20) - (120u << 3));
}

__device__ inline uint32_t code_of(float value, const Steps& steps, KvCodes codes) {
  const float number = steps.factor > 0 ? value * steps.factor : 0.f;
  return codes == KvCodes::kInt8 ? uint32_t(int(rintf(number))) & 0xff : fp8_of(number);
}

// --- codes to numbers ------------------------------------------------------------------------------------------------

// Bytes of x and y, which are 0 to 3 and 4 to 7, by the four digits of `which`, the lowest first.
template <uint32_t kWhich>
__device__ inline uint32_t pick_bytes(uint32_t x, uint32_t y) {
#ifdef __CUDACC__
  return __byte_perm(x, y, kWhich);
#else
  const uint64_t both = uint64_t(y) << 32 | x;
  uint32_t out = 0;
  for (uint32_t i = 0; i < 4; ++i) out |= uint32_t(both >> (kWhich >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return out;
#endif
}

// Two codes, the bytes k0 and k1 of four, as a pair of bfloat16.
template <KvCodes kCodes, uint32_t k0, uint32_t k1>
__device__ inline uint32_t widen_pair(uint32_t codes) {
  if constexpr (kCodes == KvCodes::kInt8) {
    // The lower seven bits behind 128, which is taken off again; 256 is where the eighth is set.
    constexpr uint32_t kBehind = 0x4040 | k0 | k1 << 8, kOnes = 0x3f803f80;
    return multiply_add_pairs(pick_bytes<kBehind>(codes & 0x7f7f7f7f, 0x43), kOnes,
                              pick_bytes<kBehind>(codes & 0x80808080, 0xc3));
  } else {
    constexpr uint32_t kInFront = 0x0404 | k0 << 4 | k1 << 12;
    return fp8_pair(pick_bytes<kInFront>(codes, 0));
  }
}

// --- scales ----------------------------------------------------------------------------------------------------------

// Scores, or weights, of two neighbouring positions times the scales of their keys, or values; `scales`: of the first.
enum class Of : uint32_t { kKeys, kValues };
template <Of kOf>
__device__ inline void multiply_scales(float& first, float& second, const float* scales) {
  const float4 all = *reinterpret_cast<const float4*>(scales);
  first *= kOf == Of::kKeys ? all.x : all.y, second *= kOf == Of::kKeys ? all.z : all.w;
}

}  // namespace weir::llm::cuda
