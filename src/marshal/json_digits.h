// Converts the digits of JSON numbers, for json_number.cc and number_run.cc.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir::marshal {

inline constexpr std::array<double, 23> kPowers{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline constexpr std::array<uint64_t, 9> kTens{1, 10, 100, 1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};

// The number that eight digits are, each a byte of 0 to 9, the first one lowest: pairs, then fours, then all are summed
// by multiplication.
inline uint64_t sum_of_digits(uint64_t bytes) {
  bytes = bytes * 2561 >> 8 & 0x00ff00ff00ff00ff;
  bytes = bytes * 6553601 >> 16 & 0x0000ffff0000ffff;
  return bytes * 42949672960001 >> 32;
}

// Appends the digits at `p`, up to eight, to `value`, and returns how many there are; eight bytes can be read. What is
// no digit gets its high bit set, and the digits before it are moved to the top with zeros in front. Little-endian.
inline size_t eight_digits(const char* p, uint64_t& value) {
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  bytes ^= 0x3030303030303030;
  uint64_t other = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  auto n = size_t(std::countr_zero(other)) / 8;  // 8 where there is none
  if (n == 0) return 0;
  value = value * kTens[n] + sum_of_digits(bytes << (64 - 8 * n));
  return n;
}

// A double that was rounded to nearest already, from 1e-22 to 1e38 or zero, as a float. Rounding again is only wrong
// where the double lies right at the middle of two floats: false then, and the text decides.
inline bool round_again(double value, float& out) {
  uint64_t cut = std::bit_cast<uint64_t>(value) & 0x1fffffff;
  out = float(value);
  return cut - 0x0fffffff > 2;
}
inline bool round_again(double value, double& out) {
  out = value;
  return true;
}

// The promise of plain(): digits up to kMostWhole before the point and eight behind it are exact in a double. Null
// where it is anything else, also close to the end of the text.
inline constexpr ptrdiff_t kMostWhole = 7, kPlainRoom = 1 + kMostWhole + 1 + 8 + 1;

template <class T>
const char* read_plain(const char* p, const char* end, T& out) {
  if (end - p < kPlainRoom) return nullptr;
  bool negative = *p == '-';
  p += negative;
  const char* const first = p;
  uint64_t digits = 0;
  for (; unsigned(*p - '0') < 10; ++p) {
    if (p - first == kMostWhole) return nullptr;
    digits = digits * 10 + uint64_t(*p - '0');
  }
  if (p == first || (*first == '0' && p - first > 1)) return nullptr;
  size_t places = 0;
  if (*p == '.') {
    const unsigned tenth = unsigned(*++p - '0');
    if (tenth < 10 && unsigned(p[1] - '0') >= 10) {  // "1.0": 20 instructions less than the way for many
      digits = digits * 10 + tenth;
      places = 1;
    } else {
      places = eight_digits(p, digits);
    }
    p += places;
    if (places == 0 || unsigned(*p - '0') < 10) return nullptr;
  }
  if ((*p | 0x20) == 'e') return nullptr;
  double value = double(int64_t(digits)) / kPowers[places];
  return round_again(negative ? -value : value, out) ? p : nullptr;
}

}  // namespace weir::marshal
