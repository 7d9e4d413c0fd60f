#include "marshal/float_text.h"

#include <dragonbox/dragonbox.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace weir::marshal {
namespace {

constexpr auto kPairs = [] {
  std::array<char, 200> table{};
  for (size_t i = 0; i < 100; ++i) table[2 * i] = char('0' + i / 10), table[2 * i + 1] = char('0' + i % 10);
  return table;
}();

// How many of two digits behind a point must be written.
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

// Not in line: what one decimal takes needs no registers to be saved then. Not negative.
[[gnu::noinline]] char* put_any(char* to, float value) {
  if (char* end = put_few_decimals(to, value)) return end;
  if (small_whole(value)) {  // common, and cheap as such
    const auto whole = uint32_t(value);
    const int n = count_digits(whole);
    put_digits(to + n, whole);
    std::memcpy(to + n, ".0", 2);
    return to + n + 2;
  }
  return put_decimal(to, jkj::dragonbox::to_decimal(value, jkj::dragonbox::policy::sign::ignore));
}

inline char* write_finite(char* to, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  *to = '-';
  to += bits >> 31;
  const auto magnitude = std::bit_cast<float>(bits & 0x7fffffff);
  char* const end = put_tenths(to, magnitude);
  return end ? end : put_any(to, magnitude);
}

}  // namespace

char* write_text(char* to, float value) { return write_finite(to, value); }

size_t write_run(char*& to, const char* data, size_t n, char behind) {
  char* p = to;
  size_t i = 0;
  for (; i < n; ++i) {
    float value;
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    if (!std::isfinite(value)) break;
    p = write_finite(p, value);
    *p++ = behind;
  }
  to = p;
  return i;
}

char* write_text(char* to, double value) {
  if (small_whole(value)) return write_text(to, float(value));
  char* end = std::to_chars(to, to + kFloatText, value).ptr;
  if (std::string_view(to, size_t(end - to)).find_first_of(".e") != std::string_view::npos) return end;
  std::memcpy(end, ".0", 2);
  return end + 2;
}

char* write_text(char* to, int64_t value) { return std::to_chars(to, to + kFloatText, value).ptr; }
char* write_text(char* to, uint64_t value) { return std::to_chars(to, to + kFloatText, value).ptr; }

}  // namespace weir::marshal
