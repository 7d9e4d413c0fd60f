// The two 16-bit floating-point formats.
#pragma once

#include <bit>
#include <cstdint>

namespace weir::llm {

inline float from_bf16(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }

// To the nearest, ties to even; a NaN stays one.
inline uint16_t to_bf16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffff) > 0x7f800000) return uint16_t(u >> 16 | 0x40);
  return uint16_t((u + ((u >> 16) & 1) + 0x7fff) >> 16);
}

inline float from_f16(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float f = float(fraction) * 0x1p-24f;  // zero and subnormals
  return sign ? -f : f;
}

}  // namespace weir::llm
