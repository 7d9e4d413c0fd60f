// bfloat16 as its bits, on the host.
#pragma once

#include <bit>
#include <cstdint>

namespace weir::llm::cuda {

inline float widen_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

// To the nearest, ties to even; NaN stays one.
inline uint16_t narrow_bf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace weir::llm::cuda
