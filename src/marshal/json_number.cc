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

#include "marshal/json_cursor.h"
#include "marshal/json_digits.h"

namespace weir::marshal {
namespace {

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
