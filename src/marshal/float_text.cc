#include "marshal/float_text.h"

#include <dragonbox/dragonbox.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "marshal/avx2.h"

namespace weir::marshal {
namespace {

constexpr auto kPairs = [] {
  std::array<char, 200> table{};
  for (size_t i = 0; i < 100; ++i) table[2 * i] = char('0' + i / 10), table[2 * i + 1] = char('0' + i % 10);
  return table;
}();

// How many of the two digits behind a point must be written.
constexpr auto kTold = [] {
  std::array<uint8_t, 100> table{};
  for (size_t i = 1; i < 100; ++i) table[i] = i % 10 ? 2 : 1;
  return table;
}();

int count_digits(uint32_t v) {
  int n = 1;
  for (; v >= 10000; v /= 10000) n += 4;
  return n + (v >= 10) + (v >= 100) + (v >= 1000);
}

// Exactly n digits, ending before `end`.
void put_digits(char* end, uint32_t v) {
  for (; v >= 100; v /= 100) std::memcpy(end -= 2, &kPairs[2 * (v % 100)], 2);
  if (v >= 10)
    std::memcpy(end - 2, &kPairs[2 * v], 2);
  else
    end[-1] = char('0' + v);
}

constexpr uint64_t kEights = 100'000'000;

// Eight digits in eight bytes, the first one lowest: halves, then pairs, then digits are parted by multiplication.
inline uint64_t eight_digits_of(uint32_t value) {
  const uint64_t fours = value / 10000 | uint64_t(value % 10000) << 32;
  const uint64_t hundreds = fours * 10486 >> 20 & 0x0000007f0000007f;
  const uint64_t pairs = hundreds | (fours - 100 * hundreds) << 16;
  const uint64_t tens = pairs * 103 >> 10 & 0x000f000f000f000f;
  return tens | (pairs - 10 * tens) << 8;
}

inline char* put_all_eight(char* to, uint32_t value) {
  const uint64_t text = eight_digits_of(value) | 0x3030303030303030;
  std::memcpy(to, &text, 8);
  return to + 8;
}

// Up to eight digits, without zeros in front. Eight bytes are written.
inline char* put_eight(char* to, uint32_t value) {
  const uint64_t digits = eight_digits_of(value);
  const auto zeros = unsigned(std::countr_zero(digits | uint64_t(1) << 56)) / 8;  // the last digit stays
  const uint64_t text = (digits | 0x3030303030303030) >> (8 * zeros);
  std::memcpy(to, &text, 8);
  return to + (8 - zeros);
}

using Decimal = jkj::dragonbox::decimal_fp<uint32_t, false, false>;

// d · 10^e with the point where a person would put it: 0.00012, 123.4, 1230000.0, 1.2e+30.
char* put_decimal(char* to, Decimal d) {
  int n = count_digits(d.significand);
  int point = n + d.exponent;  // digits before the point
  if (d.exponent >= 0 && point <= 16) {
    put_digits(to + n, d.significand);
    std::memset(to + n, '0', size_t(d.exponent));
    std::memcpy(to + point, ".0", 2);
    return to + point + 2;
  }
  if (point > 0 && point <= 16) {
    put_digits(to + n + 1, d.significand);
    std::memmove(to, to + 1, size_t(point));
    to[point] = '.';
    return to + n + 1;
  }
  if (point > -5 && point <= 0) {
    std::memcpy(to, "0.0000", 6);
    put_digits(to + 2 - point + n, d.significand);
    return to + 2 - point + n;
  }
  put_digits(to + n + 1, d.significand);
  to[0] = to[1];
  to[1] = '.';
  to += n == 1 ? 1 : n + 1;
  int e = point - 1;
  *to++ = 'e';
  *to++ = e < 0 ? '-' : '+';
  std::memcpy(to, &kPairs[2 * size_t(std::abs(e))], 2);
  return to + 2;
}

template <class T>
bool small_whole(T value) {
  return std::abs(value) < T(1 << 24) && value == std::trunc(value);
}

// A number with at most two digits before the point and four behind it, as people often write. Six digits are
// what any float keeps (FLT_DIG): where such a decimal reads back as the float, none but this one so short does, so it
// is the shortest. Rounding twice on the way back is harmless: n · 10^-4 is never nearer than 2^-39 of itself to the
// middle of two floats. Null where `value`, which is not negative, has no such text.
inline char* put_few_decimals(char* to, float value) {
  double scaled = double(value) * 1e4;  // exact
  if (!(scaled < 999999.5)) return nullptr;
  auto n = uint32_t(scaled + 0.5);
  if (float(double(n) * 1e-4) != value) return nullptr;
  const uint32_t whole = n / 10000, fraction = n % 10000;
  if (whole >= 10) *to++ = kPairs[2 * whole];
  *to++ = kPairs[2 * whole + 1];
  *to++ = '.';
  const uint32_t first = fraction / 100, second = fraction % 100;
  std::memcpy(to, &kPairs[2 * first], 2);
  if (second == 0) return to + (first == 0 ? 1 : kTold[first]);
  std::memcpy(to + 2, &kPairs[2 * second], 2);
  return to + 2 + kTold[second];
}

// A double with a fraction as std::to_chars writes it: with a point, which is not longer than with an exponent here.
// Null for others. Not negative.
char* put_fraction(char* to, double value) {
  if (!(value >= 1e-3 && value < 1e14)) return nullptr;
  const auto decimal = jkj::dragonbox::to_decimal(value, jkj::dragonbox::policy::sign::ignore);
  if (decimal.exponent >= 0) return nullptr;
  std::array<char, 40> digits;  // 17, and what is copied with them
  const auto n = int(write_text(digits.data(), uint64_t(decimal.significand)) - digits.data());
  const int point = n + decimal.exponent;  // digits before the point
  if (point <= 0) {
    std::memcpy(to, "0.00", 4);
    std::memcpy(to + 2 - point, digits.data(), 24);
    return to + 2 - point + n;
  }
  std::memcpy(to, digits.data(), 16);
  to[point] = '.';
  std::memcpy(to + point + 1, digits.data() + point, 16);
  return to + n + 1;
}

// The whole part and the point of a number below 100.
struct WholePart {
  std::array<char, 4> text;  // "12." or "1."
  uint32_t size;
};
constexpr auto kWholeParts = [] {
  std::array<WholePart, 100> table{};
  for (uint32_t i = 0; i < 100; ++i) {
    const char ones = char('0' + i % 10);
    table[i] = i < 10 ? WholePart{{ones, '.'}, 2} : WholePart{{char('0' + i / 10), ones, '.'}, 3};
  }
  return table;
}();

// The same with one decimal, like 12.5 and 3.0, in half the instructions: three digits over ten read back as the float
// that one division gives.
inline char* put_tenths(char* to, float value) {
  const float scaled = value * 10;
  if (!(scaled < 1000)) return nullptr;
  const auto n = uint32_t(int32_t(scaled));
  if (float(int32_t(n)) / 10 != value) return nullptr;
  const uint32_t whole = n / 10;
  const WholePart& part = kWholeParts[whole];
  std::memcpy(to, part.text.data(), 4);
  to += part.size;
  *to = char('0' + n - 10 * whole);
  return to + 1;
}

// Not inlined, so that the caller's path for numbers with one decimal saves no registers. `value` is not negative. Null
// if it is of no common kind.
[[gnu::noinline]] char* put_common(char* to, float value) {
  if (char* end = put_few_decimals(to, value)) return end;
  if (!small_whole(value)) return nullptr;
  const auto whole = uint32_t(value);
  const int n = count_digits(whole);
  put_digits(to + n, whole);
  std::memcpy(to + n, ".0", 2);
  return to + n + 2;
}

// Writes a number of a common kind, and returns its end. Null if it is of none; a minus has been written then.
inline char* write_common(char* to, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  *to = '-';
  to += bits >> 31;
  const auto magnitude = std::bit_cast<float>(bits & 0x7fffffff);
  char* const end = put_tenths(to, magnitude);
  return end ? end : put_common(to, magnitude);
}

char* put_uncommon(char* to, float value) {
  return put_decimal(to, jkj::dragonbox::to_decimal(value, jkj::dragonbox::policy::sign::ignore));
}

// Called at a number of no common kind. The next ones are likely to be of none, either, so the AVX2 code is tried for
// all of them; without it one number is written. Returns how many were.
[[gnu::noinline]] size_t write_uncommon(char*& to, const char* data, size_t n, char behind) {
#ifdef __x86_64__
  if (has_avx2()) {
    if (const size_t some = write_floats_avx2(to, data, n, behind)) return some;
  }
#endif
  float value;
  std::memcpy(&value, data, sizeof value);
  *to = '-';
  to = put_uncommon(to + std::signbit(value), std::abs(value));
  *to++ = behind;
  return 1;
}

}  // namespace

char* write_text(char* to, float value) {
  char* const end = write_common(to, value);
  return end ? end : put_uncommon(to + std::signbit(value), std::abs(value));
}

size_t write_floats(char*& to, const char* data, size_t n, char behind) {
  char* p = to;
  size_t i = 0;
  while (i < n) {
    float value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    if (!std::isfinite(value)) break;
    if (char* const end = write_common(p, value)) {
      p = end;
      *p++ = behind;
      ++i;
    } else {
      char* some = p;  // one whose address is not taken stays in a register
      i += write_uncommon(some, data + i * sizeof value, n - i, behind);
      p = some;
    }
  }
  to = p;
  return i;
}

char* write_text(char* to, double value) {
  if (small_whole(value)) return write_text(to, float(value));
  *to = '-';
  if (char* const end = put_fraction(to + std::signbit(value), std::abs(value))) return end;
  char* end = std::to_chars(to, to + kFloatText, value).ptr;
  if (std::string_view(to, size_t(end - to)).find_first_of(".e") != std::string_view::npos) return end;
  std::memcpy(end, ".0", 2);
  return end + 2;
}

char* write_text(char* to, int64_t value) {
  *to = '-';
  return write_text(to + (value < 0), value < 0 ? 0 - uint64_t(value) : uint64_t(value));
}

char* write_text(char* to, uint64_t value) {
  if (value < kEights) return put_eight(to, uint32_t(value));
  if (value < kEights * kEights)
    to = put_eight(to, uint32_t(value / kEights));
  else
    to = put_all_eight(put_eight(to, uint32_t(value / kEights / kEights)), uint32_t(value / kEights % kEights));
  return put_all_eight(to, uint32_t(value % kEights));
}

}  // namespace weir::marshal
