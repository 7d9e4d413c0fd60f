// The numbers of json_cursor.h.
//
//   number = [ "-" ] ( "0" / digit1-9 *digit ) [ "." 1*digit ] [ ( "e" / "E" ) [ "+" / "-" ] 1*digit ]    RFC 8259 §6
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "marshal/float_run.h"
#include "marshal/json_cursor.h"

namespace weir::marshal {
namespace {

constexpr std::array<double, 23> kPowers{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

template <class T>
constexpr std::array<T, 6> kShortPowers{1e0, 1e1, 1e2, 1e3, 1e4, 1e5};

constexpr std::array<uint64_t, 9> kTens{1, 10, 100, 1000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};

// Appends the digits at `p`, up to eight, to `value`, and returns how many there are; eight bytes can be read. What is
// no digit gets its high bit set, the digits before it are moved to the top with zeros in front, and pairs, then fours,
// then all are summed by multiplication. Little-endian.
inline size_t eight_digits(const char* p, uint64_t& value) {
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  bytes ^= 0x3030303030303030;
  uint64_t other = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  auto n = size_t(std::countr_zero(other)) / 8;  // 8 where there is none
  if (n == 0) return 0;
  bytes <<= 64 - 8 * n;
  bytes = bytes * 2561 >> 8 & 0x00ff00ff00ff00ff;
  bytes = bytes * 6553601 >> 16 & 0x0000ffff0000ffff;
  value = value * kTens[n] + (bytes * 42949672960001 >> 32);
  return n;
}

bool is_digit_at(const char* p, const char* end) { return p < end && unsigned(*p - '0') < 10; }

// All digits from `p` on.
const char* read_digits(const char* p, const char* end, uint64_t& value) {
  while (end - p >= 8) {
    size_t n = eight_digits(p, value);
    p += n;
    if (n < 8) return p;
  }
  while (is_digit_at(p, end)) value = value * 10 + uint64_t(*p++ - '0');
  return p;
}

// Both factors are exact doubles, so one IEEE operation rounds correctly (Clinger's fast path).
bool exact(const JsonNumber& n) {
  return !n.truncated && n.digits <= (uint64_t(1) << 53) && n.exponent >= -22 && n.exponent <= 22;
}

double exact_value(const JsonNumber& n) {
  auto value = double(int64_t(n.digits));  // the cheaper conversion
  value = n.exponent < 0 ? value / kPowers[size_t(-n.exponent)] : value * kPowers[size_t(n.exponent)];
  return n.negative ? -value : value;
}

// A double that was rounded to nearest already, from 1e-22 to 1e38 or zero, as a float. Rounding again is only wrong
// where the double lies right at the middle of two floats: false then, and the text decides.
bool round_again(double value, float& out) {
  uint64_t cut = std::bit_cast<uint64_t>(value) & 0x1fffffff;
  out = float(value);
  return cut - 0x0fffffff > 2;
}
bool round_again(double value, double& out) {
  out = value;
  return true;
}

// The promise of plain(): digits up to kMostWhole before the point and eight behind it are exact in a double. Null
// where it is anything else, also close to the end of the text.
constexpr ptrdiff_t kMostWhole = 7, kPlainRoom = 1 + kMostWhole + 1 + 8 + 1;

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

// The same for a number as people write most: one or two digits, a point, and up to five digits behind it, which are
// read as by eight_digits(). Its seven digits and such a power of ten are exact in a float, too, so one division rounds
// correctly. Null where it is anything else. Eleven bytes can be read.
template <class T>
inline const char* read_short(const char* p, T& out) {
  uint64_t digits = uint64_t(p[0]) - '0', bytes;
  if (digits > 9) return nullptr;
  if (p[1] == '.') {
    p += 2;
  } else {
    const uint64_t second = uint64_t(p[1]) - '0';
    if (second > 9 || digits == 0 || p[2] != '.') return nullptr;
    digits = digits * 10 + second;
    p += 3;
  }
  std::memcpy(&bytes, p, 8);
  bytes ^= 0x3030303030303030;
  const uint64_t other = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  const auto bits = size_t(std::countr_zero(other)) & ~size_t(7), places = bits / 8;  // 8 where all are digits
  if (places - 1 > 4 || (p[places] | 0x20) == 'e') return nullptr;
  bytes <<= 64 - bits;
  bytes = bytes * 2561 >> 8 & 0x00ff00ff00ff00ff;
  bytes = bytes * 6553601 >> 16 & 0x0000ffff0000ffff;
  digits = digits * kTens[places] + (bytes * 42949672960001 >> 32);
  out = T(int32_t(digits)) / kShortPowers<T>[places];
  return p + places;
}

// A whole number of up to 18 digits, without a fraction and an exponent, that fits. Null where it is anything else.
template <class T>
const char* read_whole(const char* p, const char* end, T& out) {
  constexpr ptrdiff_t kMost = 18;
  if (end - p < 1 + kMost + 1) return nullptr;
  const bool negative = *p == '-';
  p += negative;
  const char* const first = p;
  int64_t value = 0;
  for (; unsigned(*p - '0') < 10; ++p) {
    if (p - first == kMost) return nullptr;
    value = value * 10 + (*p - '0');
  }
  if (p == first || (*first == '0' && p - first > 1) || *p == '.' || (*p | 0x20) == 'e') return nullptr;
  value = negative ? -value : value;
  out = T(value);
  return int64_t(out) == value ? p : nullptr;
}

template <class T>
inline const char* read_one(const char* p, const char* end, T& out) {
  if constexpr (std::is_integral_v<T>) {
    return read_whole(p, end, out);
  } else {
    const char* after = read_short(p, out);
    return after ? after : read_plain(p, end, out);
  }
}

// How far a run has come.
struct RunPlace {
  const char* next;   // where its next number begins
  const char* read;   // behind its last number
  bool over = false;  // there is no next number that it takes
};

constexpr ptrdiff_t kRunRoom = 1 + 18 + 2;  // the longest number of any kind, and what follows it
static_assert(kRunRoom > kPlainRoom);

template <class T>
size_t run_with_room(RunPlace& place, const char* end, T* to, size_t most) {
  const char *p = place.next, *after = place.read;
  size_t n = 0;
  for (; n < most && end - p >= kRunRoom && !place.over; ++n) {
    const char* const number_end = read_one(p, end, to[n]);
    place.over = !number_end;
    if (!number_end) break;
    after = number_end;
    place.over = *after != ',';
    p = after + 1;
    p += *p == ' ';
  }
  place.next = p, place.read = after;
  return n;
}

// Close to the end of the text the rest is read from a copy, with room behind it that is no part of a number.
template <class T>
size_t run_of_plain(std::string_view text, T* to, size_t most, size_t* used) {
  RunPlace place{text.data(), text.data()};
  const char* const end = text.data() + text.size();
  size_t n = run_with_room(place, end, to, most);
  *used = size_t(place.read - text.data());
  if (n == most || place.over) return n;
  std::array<char, 2 * kRunRoom> copy{};
  if (place.next != end) std::memcpy(copy.data(), place.next, size_t(end - place.next));
  RunPlace rest{copy.data(), copy.data()};
  const size_t more = run_with_room(rest, copy.data() + copy.size(), to + n, most - n);
  if (more > 0) *used = size_t(place.next - text.data()) + size_t(rest.read - copy.data());
  return n + more;
}

// Up to 19 digits are exact in a long double with 64 bits, and so are the powers of ten up to 27: one operation is off
// by at most half of its last bit, which only matters where that bit decides the rounding. Digits that came from
// doubles (Python prints 17) go this way.
template <class T>
bool extended(const JsonNumber& n, T& out) {
  if constexpr (std::numeric_limits<long double>::digits != 64) return false;
  if (n.truncated || n.exponent < -27 || n.exponent > 27) return false;
  static constexpr std::array<long double, 28> kWide{
      1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
      1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
  auto value = static_cast<long double>(n.digits);
  value = n.exponent < 0 ? value / kWide[size_t(-n.exponent)] : value * kWide[size_t(n.exponent)];
  if (value != 0 && (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max() / 2)) return false;
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  constexpr int kCut = 64 - std::numeric_limits<T>::digits;
  constexpr uint64_t kHalf = uint64_t(1) << (kCut - 1);
  if ((bits & ((uint64_t(1) << kCut) - 1)) == kHalf) return false;
  out = T(n.negative ? -value : value);
  return true;
}

template <class T>
bool slow(const JsonNumber& n, T& out) {
  if (extended(n, out)) return true;
  auto [end, error] = std::from_chars(n.text.data(), n.text.data() + n.text.size(), out);
  if (error == std::errc()) return std::isfinite(out);
  // Out of range both ways: below is zero, above is an error. `digits` has at most 19 places.
  if (error == std::errc::result_out_of_range && n.exponent < 0) {
    out = n.negative ? T(-0.0) : T(0);
    return true;
  }
  return false;
}

// More than 19 places were written, so that the sum may have wrapped: counts again without leading zeros, and returns
// how many places had to be dropped.
int64_t recount(std::string_view text, JsonNumber& out) {
  int64_t places = 0, dropped = 0;
  out.digits = 0;
  for (char c : text) {
    if (c == '.') continue;
    if (places == 19) {
      out.truncated = true;
      ++dropped;
      continue;
    }
    out.digits = out.digits * 10 + uint64_t(c - '0');
    if (out.digits != 0) ++places;
  }
  return dropped;
}

// A number of very many places, or with an exponent beyond 32 bits: what its fields can still say. `text`: its digits
// and its point.
void settle(std::string_view text, int64_t places, int64_t exponent, JsonNumber& out) {
  if (places > 19) exponent += recount(text, out);
  out.exponent = int32_t(std::clamp<int64_t>(exponent, -2'000'000'000, 2'000'000'000));
}

// Reads the exponent behind an 'e'. Null where that is no exponent.
const char* read_exponent(const char* p, const char* end, int64_t& out) {
  bool minus = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) ++p;
  if (!is_digit_at(p, end)) return nullptr;
  int64_t written = 0;
  for (; is_digit_at(p, end); ++p)
    if (written < 1'000'000'000) written = written * 10 + (*p - '0');
  out = minus ? -written : written;
  return p;
}

}  // namespace

bool JsonNumber::to(double& out) const {
  if (!exact(*this)) return slow(*this, out);
  out = exact_value(*this);
  return true;
}

// Exact values are from 1e-22 to 1e38, so always normal floats.
bool JsonNumber::to(float& out) const {
  return (exact(*this) && round_again(exact_value(*this), out)) || slow(*this, out);
}

bool JsonNumber::to(uint64_t& out) const {
  if (negative && digits != 0) return false;
  uint64_t value = digits;
  if (truncated) {  // 20 digits may still fit
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
  } else {
    int32_t e = digits == 0 ? 0 : exponent;
    for (; e > 0; --e)
      if (__builtin_mul_overflow(value, uint64_t(10), &value)) return false;
    for (; e < 0; ++e) {
      if (value % 10 != 0) return false;
      value /= 10;
    }
  }
  out = value;
  return true;
}

bool JsonNumber::to(int64_t& out) const {
  JsonNumber magnitude = *this;
  magnitude.negative = false;
  if (negative && !text.empty()) magnitude.text.remove_prefix(1);
  uint64_t value;
  if (!magnitude.to(value)) return false;
  if (value > uint64_t(INT64_MAX) + (negative ? 1 : 0)) return false;
  out = negative ? int64_t(0 - value) : int64_t(value);
  return true;
}

bool JsonCursor::number(JsonNumber& out) {
  space();
  const char* const end = end_;
  const char* const from = p_;
  const char* p = from;
  bool negative = p < end && *p == '-', integral = true;
  p += negative;
  if (!is_digit_at(p, end)) return fail("expected a number");
  const char* const first = p;
  uint64_t digits = uint64_t(*p++ - '0');
  while (is_digit_at(p, end)) digits = digits * 10 + uint64_t(*p++ - '0');
  if (*first == '0' && p - first > 1) return fail("a number with leading zeros");
  int64_t exponent = 0;
  int64_t places = p - first;
  if (p < end && *p == '.') {
    const char* fraction = ++p;
    p = read_digits(p, end, digits);
    if (p == fraction) return fail("a number without digits after its point");
    exponent = fraction - p;
    places -= exponent;
    integral = false;
  }
  const char* last = p;
  if (p < end && (*p | 0x20) == 'e') {
    integral = false;
    int64_t written;
    if (!(p = read_exponent(p + 1, end, written))) return fail("a number without digits in its exponent");
    exponent += written;
  }
  p_ = p;
  out = {{from, size_t(p - from)}, digits, int32_t(exponent), negative, false, integral};
  if (places > 19 || exponent != out.exponent) settle({first, size_t(last - first)}, places, exponent, out);
  return true;
}

size_t read_run(std::string_view text, float* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_run(std::string_view text, double* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_run(std::string_view text, int32_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}
size_t read_run(std::string_view text, int64_t* to, size_t most, size_t* used) {
  return run_of_plain(text, to, most, used);
}

bool JsonCursor::plain(double& out) {
  space();
  const char* end = read_plain(p_, end_, out);
  if (end) p_ = end;
  return end != nullptr;
}

bool JsonCursor::plain(float& out) {
  space();
  const char* end = read_plain(p_, end_, out);
  if (end) p_ = end;
  return end != nullptr;
}

}  // namespace weir::marshal
