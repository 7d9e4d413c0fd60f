// E4M3 as its bits: a sign, four bits of exponent with a bias of 7, three of mantissa; no infinities.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace weir::llm {

inline constexpr float kMostOfFp8 = 448;

inline float fp8_value(uint32_t code) {
  const int exponent = int(code >> 3 & 15), mantissa = int(code & 7);
  const float size = exponent == 0 ? std::ldexp(float(mantissa), -9) : std::ldexp(float(8 + mantissa), exponent - 10);
  return code & 0x80 ? -size : size;
}

// To the nearest, ties to even. A number of at most kMostOfFp8.
inline uint8_t fp8_from(float value) {
  const float size = std::fabs(value);
  const int exponent = size < 0x1p-6f ? -6 : std::ilogb(size);
  // In steps of the mantissa; eight of them carry into the exponent, as they should.
  const auto steps = int(std::lrint(std::ldexp(size, 3 - exponent)));
  return uint8_t((std::signbit(value) ? 0x80 : 0) | (size < 0x1p-6f ? steps : (exponent + 6) * 8 + steps));
}

}  // namespace weir::llm
