#include "marshal/json_cursor.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace weir::marshal {
namespace {

constexpr std::array<double, 23> kPowers{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Eight digits at once, if there are eight (each byte is 0x30 … 0x39): pairs, then fours, then all are summed by
// multiplication. Little-endian.
bool eight_digits(const char* p, const char* end, uint64_t& value) {
  if (end - p < 8) return false;
  uint64_t bytes;
  std::memcpy(&bytes, p, 8);
  if (((bytes & 0xf0f0f0f0f0f0f0f0) | (((bytes + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) >> 4)) != 0x3333333333333333)
    return false;
  bytes = (bytes & 0x0f0f0f0f0f0f0f0f) * 2561 >> 8;
  bytes = (bytes & 0x00ff00ff00ff00ff) * 6553601 >> 16;
  value = value * 100'000'000 + ((bytes & 0x0000ffff0000ffff) * 42949672960001 >> 32);
  return true;
}

bool digit(const char* p, const char* end) { return p < end && unsigned(*p - '0') < 10; }

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xc0 | (code >> 6));
    out += char(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += char(0xe0 | (code >> 12));
    out += char(0x80 | ((code >> 6) & 0x3f));
    out += char(0x80 | (code & 0x3f));
  } else {
    out += char(0xf0 | (code >> 18));
    out += char(0x80 | ((code >> 12) & 0x3f));
    out += char(0x80 | ((code >> 6) & 0x3f));
    out += char(0x80 | (code & 0x3f));
  }
}

// Both factors are exact doubles, so one IEEE operation rounds correctly (Clinger's fast path).
bool exact(const JsonNumber& n) {
  return !n.truncated && n.digits <= (uint64_t(1) << 53) && n.exponent >= -22 && n.exponent <= 22;
}

double exact_value(const JsonNumber& n) {
  auto value = double(n.digits);
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

}  // namespace

// Most names are short and plain ASCII: seen here, before the library has found out which processor it runs on.
bool valid_utf8(std::string_view text) {
  constexpr size_t kShort = 32;
  if (text.size() <= kShort) {
    unsigned char all = 0;
    for (char c : text) all |= static_cast<unsigned char>(c);
    if (all < 0x80) return true;
  }
  return simdjson::validate_utf8(text.data(), text.size());
}

bool JsonNumber::to(double& out) const {
  if (!exact(*this)) return slow(*this, out);
  out = exact_value(*this);
  return true;
}

// Through double, which is rounded to nearest already; rounding again is only wrong where the double lies right at the
// middle of two floats, and there the text decides.
bool JsonNumber::to(float& out) const {
  if (!exact(*this)) return slow(*this, out);
  double value = exact_value(*this);
  uint64_t cut = std::bit_cast<uint64_t>(value) & 0x1fffffff;
  if (cut - 0x0fffffff <= 2 || (value != 0 && std::abs(value) < 1.2e-38)) return slow(*this, out);
  out = float(value);
  return std::isfinite(out);
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

JsonCursor::JsonCursor(std::string_view text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {
  if (!valid_utf8(text)) fail("text that is not UTF-8");
}

bool JsonCursor::fail(std::string reason) {
  if (error_.empty()) error_ = std::move(reason), error_at_ = size_t(p_ - begin_);
  p_ = end_;  // everything that follows fails too
  return false;
}

base::Status JsonCursor::error() const {
  return base::invalid("JSON: " + error_ + " at byte " + std::to_string(error_at_));
}

JsonCursor::Kind JsonCursor::peek() {
  space();
  return kind_at(p_);
}

JsonCursor::Kind JsonCursor::peek_inside() {
  if (peek() != Kind::kArray) return Kind::kNone;
  const char* p = p_ + 1;
  while (p < end_ && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
  return kind_at(p);
}

JsonCursor::Kind JsonCursor::kind_at(const char* p) const {
  if (p == end_) return Kind::kNone;
  switch (*p) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't':
    case 'f': return Kind::kBool;
    case 'n': return Kind::kNull;
    default: return *p == '-' || digit(p, end_) ? Kind::kNumber : Kind::kNone;
  }
}

size_t JsonCursor::at() {
  space();
  return size_t(p_ - begin_);
}

bool JsonCursor::enter(char bracket, const char* what) {
  space();
  if (p_ == end_ || *p_ != bracket) return fail(std::string("expected ") + what);
  if (++depth_ > kMaxDepth) return fail("nested deeper than 100 levels");
  ++p_;
  return true;
}

bool JsonCursor::leave(char bracket) {
  space();
  if (p_ == end_ || *p_ != bracket) return false;
  ++p_, --depth_;
  return true;
}

bool JsonCursor::close(char bracket) {
  if (leave(bracket)) return true;
  return fail(std::string("expected ',' or '") + bracket + "'");
}

bool JsonCursor::colon() {
  space();
  if (p_ == end_ || *p_ != ':') return fail("expected ':'");
  ++p_;
  return true;
}

bool JsonCursor::string(std::string& out) {
  std::string_view view;
  if (!string(view)) return false;
  out.assign(view);
  return true;
}

bool JsonCursor::string(std::string_view& out, std::string& buffer) {
  space();
  if (p_ == end_ || *p_ != '"') return fail("expected a string");
  const char* from = ++p_;
  while (p_ < end_ && *p_ != '"' && *p_ != '\\' && uint8_t(*p_) >= 0x20) ++p_;
  if (p_ < end_ && *p_ == '"') {
    out = {from, size_t(p_++ - from)};
    return true;
  }
  return escaped(out, buffer, from);
}

bool JsonCursor::escaped(std::string_view& out, std::string& buffer, const char* from) {
  buffer.assign(from, p_);
  for (; p_ < end_; ++p_) {
    if (*p_ == '"') {
      ++p_;
      out = buffer;
      return true;
    }
    if (uint8_t(*p_) < 0x20) return fail("a control character in a string");
    if (*p_ != '\\')
      buffer += *p_;
    else if (!escape(buffer))
      return false;
  }
  return fail("a string without end");
}

bool JsonCursor::hex4(uint32_t& out) {
  if (end_ - p_ < 5) return fail("a cut escape");
  auto [end, error] = std::from_chars(p_ + 1, p_ + 5, out, 16);
  if (error != std::errc() || end != p_ + 5) return fail("a bad \\u escape");
  p_ += 4;
  return true;
}

// p_ is at the backslash, and stays on the escape's last character.
bool JsonCursor::escape(std::string& buffer) {
  if (++p_ == end_) return fail("a cut escape");
  static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (size_t i = kFrom.find(*p_); i != kFrom.npos) {
    buffer += kTo[i];
    return true;
  }
  uint32_t code, low;
  if (*p_ != 'u') return fail("an unknown escape");
  if (!hex4(code)) return false;
  if (code >= 0xd800 && code < 0xe000) {
    if (code >= 0xdc00 || end_ - p_ < 3 || p_[1] != '\\' || p_[2] != 'u') return fail("half a surrogate pair");
    p_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(buffer, code);
  return true;
}

bool JsonCursor::number(JsonNumber& out) {
  space();
  const char* from = p_;
  const char* p = p_;
  out = {};
  if (p < end_ && *p == '-') out.negative = true, ++p;
  if (!digit(p, end_)) return fail("expected a number");
  const char* first = p;
  uint64_t digits = 0;
  while (digit(p, end_)) digits = digits * 10 + uint64_t(*p++ - '0');
  if (*first == '0' && p - first > 1) return fail("a number with leading zeros");
  int64_t exponent = 0;
  int64_t places = p - first;
  if (p < end_ && *p == '.') {
    const char* fraction = ++p;
    if (!digit(p, end_)) return fail("a number without digits after its point");
    while (eight_digits(p, end_, digits)) p += 8;
    while (digit(p, end_)) digits = digits * 10 + uint64_t(*p++ - '0');
    exponent = fraction - p;
    places += p - fraction;
    out.integral = false;
  }
  const char* last = p;
  if (p < end_ && (*p == 'e' || *p == 'E')) {
    out.integral = false;
    ++p;
    bool minus = p < end_ && *p == '-';
    if (p < end_ && (*p == '-' || *p == '+')) ++p;
    if (!digit(p, end_)) return fail("a number without digits in its exponent");
    int64_t written = 0;
    for (; digit(p, end_); ++p)
      if (written < 1'000'000'000) written = written * 10 + (*p - '0');
    exponent += minus ? -written : written;
  }
  out.digits = digits;
  if (places > 19) exponent += recount({first, size_t(last - first)}, out);
  out.exponent = int32_t(std::clamp<int64_t>(exponent, -2'000'000'000, 2'000'000'000));
  out.text = {from, size_t(p - from)};
  p_ = p;
  return true;
}

bool JsonCursor::literal(std::string_view word) {
  if (size_t(end_ - p_) < word.size() || std::string_view(p_, word.size()) != word) return fail("expected a value");
  p_ += word.size();
  return true;
}

bool JsonCursor::boolean(bool& out) {
  space();
  if (p_ == end_ || (*p_ != 't' && *p_ != 'f')) return fail("expected true or false");
  out = *p_ == 't';
  return literal(out ? "true" : "false");
}

bool JsonCursor::null() {
  space();
  return literal("null");
}

bool JsonCursor::skip() {
  bool flag;
  std::string_view text;
  JsonNumber ignored;
  switch (peek()) {
    case Kind::kObject: return object([&](std::string_view) { return skip(); });
    case Kind::kArray: return array([&] { return skip(); });
    case Kind::kString: return string(text);
    case Kind::kNumber: return number(ignored);
    case Kind::kBool: return boolean(flag);
    case Kind::kNull: return null();
    case Kind::kNone: break;
  }
  return fail("expected a value");
}

bool JsonCursor::finish() {
  space();
  if (!ok()) return false;
  return p_ == end_ ? true : fail("something follows the document");
}

}  // namespace weir::marshal
