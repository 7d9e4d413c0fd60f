// Two codes at a time as a pair of bfloat16, for weights (codes.cuh) and for keys and values (cache_codes.cuh).
#pragma once

#include "engines/llm/cuda/launch.cuh"

namespace weir::llm::cuda {

// a * b + c of pairs of bfloat16, rounded once.
__device__ inline uint32_t multiply_add_pairs(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
  uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
#else
  auto half = [&](uint32_t high) {
    auto number = [&](uint32_t both) { return __uint_as_float(high ? both & 0xffff0000u : both << 16); };
    return float(double(number(a)) * number(b) + number(c));  // exact in all of its uses
  };
  return narrow2(half(0), half(1));
#endif
}

// E4M3 in the upper bytes of both halves; the lower bytes may hold anything. Exponent and mantissa in the places of
// bfloat16's, whose bias is 120 more, are the number over 2^120, also where the exponent is 0. A -0 is added, so that -0
// keeps its sign.
__device__ inline uint32_t fp8_pair(uint32_t upper_bytes) {
  constexpr uint32_t kTimes = 0x7b807b80u, kNothing = 0x80008000u;
  return multiply_add_pairs((upper_bytes & 0x80008000u) | (upper_bytes >> 4 & 0x07f007f0u), kTimes, kNothing);
}

}  // namespace weir::llm::cuda
