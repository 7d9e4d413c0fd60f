// Binary32 to decimal by the method of R. Giulietti, "The Schubfach way to render doubles" (2020), for 24-bit
// significands: v = c · 2^q and the two ends of its rounding interval are multiplied by 10^-k, kept as 64 bits rounded
// up, so that the decimals s and s+1 around v are found with one multiplication each; at most one of ⌊s/10⌋, ⌊s/10⌋+1
// and one of s, s+1 lie in the interval, and the shortest of those is the answer.
#include "marshal/float_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace weir::marshal {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr int kLeastPower = -31, kMostPower = 45;

constexpr Wide power_of_five(int n) {
  Wide p = 1;
  while (n-- > 0) p *= 5;
  return p;
}
constexpr int bits_of(Wide v) {
  int n = 0;
  for (; v; v >>= 1) ++n;
  return n;
}

// The 64 leading bits of 10^e, rounded up.
constexpr uint64_t leading_bits(int e) {
  if (e >= 0) {
    Wide p = power_of_five(e);
    int extra = bits_of(p) - 64;
    if (extra <= 0) return uint64_t(p) << -extra;
    bool cut = (p & ((Wide(1) << extra) - 1)) != 0;
    return uint64_t(p >> extra) + cut;
  }
  Wide d = power_of_five(-e);
  Wide rest = (Wide(1) << bits_of(d)) - d;
  uint64_t quotient = 1;
  for (int i = 0; i < 63; ++i) {
    rest *= 2;
    quotient = quotient << 1 | (rest >= d);
    if (rest >= d) rest -= d;
  }
  return quotient + (rest != 0);
}

constexpr auto kLeadingBits = [] {
  std::array<uint64_t, kMostPower - kLeastPower + 1> table{};
  for (int e = kLeastPower; e <= kMostPower; ++e) table[size_t(e - kLeastPower)] = leading_bits(e);
  return table;
}();

constexpr auto kPairs = [] {
  std::array<char, 200> table{};
  for (size_t i = 0; i < 100; ++i) table[2 * i] = char('0' + i / 10), table[2 * i + 1] = char('0' + i % 10);
  return table;
}();

constexpr int floor_log2_of_power_of_ten(int e) { return (e * 1741647) >> 19; }
constexpr int floor_log10_of_power_of_two(int e) { return (e * 1262611) >> 22; }
constexpr int floor_log10_of_three_quarters(int e) { return (e * 1262611 - 524031) >> 22; }  // of 3/4 · 2^e

// The upper 32 bits of the product; the lowest of them tells whether anything was cut.
uint32_t round_to_odd(uint64_t g, uint32_t c) {
  Wide product = Wide(g) * c;
  auto upper = uint32_t(product >> 64), middle = uint32_t(uint64_t(product) >> 32);
  return upper | (middle > 1);
}

struct Decimal {
  uint32_t digits;
  int exponent;
};

// `bits` of a finite float above zero.
Decimal shortest(uint32_t bits) {
  uint32_t fraction = bits & 0x7fffff, biased = bits >> 23;
  uint32_t c = biased ? fraction | 0x800000 : fraction;
  int q = biased ? int(biased) - 150 : -149;
  bool even = (c & 1) == 0;
  bool closer_below = fraction == 0 && biased > 1;  // the float below is only half as far away
  int k = closer_below ? floor_log10_of_three_quarters(q) : floor_log10_of_power_of_two(q);
  int h = q + floor_log2_of_power_of_ten(-k) + 1;
  uint64_t g = kLeadingBits[size_t(-k - kLeastPower)];
  uint32_t low = round_to_odd(g, (4 * c - 2 + closer_below) << h) + !even;
  uint32_t v = round_to_odd(g, 4 * c << h);
  uint32_t high = round_to_odd(g, (4 * c + 2) << h) - !even;
  uint32_t s = v / 4;
  if (s >= 10) {
    uint32_t t = s / 10;
    bool down = low <= 40 * t, up = 40 * t + 40 <= high;
    if (down != up) return {t + up, k + 1};
  }
  bool down = low <= 4 * s, up = 4 * s + 4 <= high;
  if (down != up) return {s + up, k};
  uint32_t middle = 4 * s + 2;
  bool round_up = v > middle || (v == middle && (s & 1));
  return {s + round_up, k};
}

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

// d · 10^e with the point where a person would put it: 0.00012, 123.4, 1230000.0, 1.2e+30.
char* put_decimal(char* to, Decimal d) {
  int n = count_digits(d.digits);
  int point = n + d.exponent;  // digits before the point
  if (d.exponent >= 0 && point <= 16) {
    put_digits(to + n, d.digits);
    std::memset(to + n, '0', size_t(d.exponent));
    std::memcpy(to + point, ".0", 2);
    return to + point + 2;
  }
  if (point > 0 && point <= 16) {
    put_digits(to + n + 1, d.digits);
    std::memmove(to, to + 1, size_t(point));
    to[point] = '.';
    return to + n + 1;
  }
  if (point > -5 && point <= 0) {
    std::memcpy(to, "0.0000", 6);
    put_digits(to + 2 - point + n, d.digits);
    return to + 2 - point + n;
  }
  put_digits(to + n + 1, d.digits);
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

// What has at most two digits before the point and four behind it, as much of what people write has. Six digits are
// what any float keeps (FLT_DIG): where such a decimal reads back as the float, none but this one so short does, so it
// is the shortest. Rounding twice on the way back is harmless: n · 10^-4 is never nearer than 2^-39 of itself to the
// middle of two floats. Null where `value`, which is not negative, has no such text.
char* put_few_decimals(char* to, float value) {
  double scaled = double(value) * 1e4;  // exact
  if (!(scaled < 999999.5)) return nullptr;
  auto n = uint32_t(scaled + 0.5);
  if (float(double(n) * 1e-4) != value) return nullptr;
  uint32_t whole = n / 10000, fraction = n % 10000;
  if (whole >= 10) *to++ = char('0' + whole / 10);
  *to++ = char('0' + whole % 10);
  *to++ = '.';
  std::memcpy(to, &kPairs[2 * (fraction / 100)], 2);
  std::memcpy(to + 2, &kPairs[2 * (fraction % 100)], 2);
  char* end = to + 4;
  while (end > to + 1 && end[-1] == '0') --end;
  return end;
}

}  // namespace

char* write_text(char* to, float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (bits >> 31) *to++ = '-';
  if (char* end = put_few_decimals(to, std::abs(value))) return end;
  if (small_whole(value)) {  // common, and cheap as such
    uint32_t whole = uint32_t(std::abs(value));
    int n = count_digits(whole);
    put_digits(to + n, whole);
    std::memcpy(to + n, ".0", 2);
    return to + n + 2;
  }
  Decimal d = shortest(bits & 0x7fffffff);
  while (d.digits % 10 == 0) d.digits /= 10, ++d.exponent;
  return put_decimal(to, d);
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
