// The two 16-bit floats of tensors, as bit patterns: FP16 (IEEE 754 binary16) and BF16 (the upper half of a binary32).
// Rounding is to nearest, ties to even; what is too large becomes an infinity, which callers refuse where a client
// wrote a finite number.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace weir::msg {

inline uint16_t bf16_from(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return uint16_t((bits >> 16) | 0x40);  // stays a NaN whatever is cut off
  bits += 0x7fff + ((bits >> 16) & 1);
  return uint16_t(bits >> 16);
}

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

inline uint16_t fp16_from(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto sign = uint16_t((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or more
  if (magnitude < 0x33000001) return sign;            // rounds to zero
  if (magnitude < 0x38800000) {                       // subnormal: units of 2^-24
    uint32_t shift = 126 - (magnitude >> 23);         // 14 … 24
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    uint32_t kept = mantissa >> shift, cut = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (cut > half || (cut == half && (kept & 1))) ++kept;
    return uint16_t(sign | kept);
  }
  magnitude += 0xfff + ((magnitude >> 13) & 1);
  return uint16_t(sign | ((magnitude - 0x38000000) >> 13));
}

inline float fp16_to_float(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = float(mantissa) * 0x1p-24F;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace weir::msg
