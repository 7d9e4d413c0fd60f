#include "format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "evaluation.h"
#include "utf8.h"

namespace jinja {

namespace {

constexpr int64_t kMaxPrecision = 300;

// %[(key)][flags][width][.precision]conversion, as in Python's "printf-style String Formatting".
struct Conversion {
  bool left = false, zero = false, sign = false, blank = false, alternate = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

class Formatter {
 public:
  Formatter(Evaluation& evaluation, std::string_view format, const Value& arguments)
      : evaluation_(evaluation), rest_(format), arguments_(arguments) {}

  std::string run() {
    std::string out;
    while (!rest_.empty()) {
      size_t at = std::min(rest_.find('%'), rest_.size());
      evaluation_.append(out, rest_.substr(0, at));
      rest_.remove_prefix(at);
      if (!rest_.empty()) convert(out);
    }
    size_t given = arguments_.tuple() ? arguments_.items().size() : arguments_.dict() ? taken_ : 1;
    if (taken_ < given) fail("not all arguments are used by the format");
    return out;
  }

 private:
  char take() {
    if (rest_.empty()) fail("the format is incomplete");
    char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }
  Value next() {
    size_t i = taken_++;
    if (arguments_.tuple() && i < arguments_.items().size()) return arguments_.items()[i];
    if (arguments_.tuple() || i > 0) fail("there are not enough arguments for the format");
    return arguments_;
  }
  Value named() {
    size_t end = rest_.find(')');
    if (end == rest_.npos) fail("the format's key is incomplete");
    std::string key(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    const Value* found = arguments_.dict() ? arguments_.find(key) : nullptr;
    if (!found) fail("the format has a key that the argument has not");
    evaluation_.spend(arguments_.entries().size() / 16);
    return *found;
  }
  int64_t number(std::string_view what, int64_t most) {
    if (!rest_.empty() && rest_.front() == '*') return take(), next().to_int(what);
    int64_t out = 0;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; rest_.remove_prefix(1))
      if ((out = out * 10 + (rest_.front() - '0')) > most) fail("the format's " + std::string(what) + " is too large");
    return out;
  }

  void convert(std::string& out) {
    take();
    Value value;
    bool has_key = !rest_.empty() && rest_.front() == '(';
    if (has_key) take(), value = named();
    Conversion c = read();
    if (c.type == '%') return void(out += '%');
    if (!has_key) value = next();
    std::string text = converted(c, value);
    auto missing = c.width - length(text);
    if (missing > 0) {
      evaluation_.spend_bytes(uint64_t(missing));
      bool zeros = c.zero && !c.left && c.type != 's' && c.type != 'r' && c.type != 'c';
      size_t at = !zeros ? (c.left ? text.size() : 0)
                         : (text.starts_with('-') || text.starts_with('+') || text.starts_with(' '));
      text.insert(at, size_t(missing), zeros ? '0' : ' ');
    }
    evaluation_.append(out, text);
  }

  Conversion read() {
    Conversion c;
    for (;; take()) {
      char flag = rest_.empty() ? 0 : rest_.front();
      bool* to = flag == '-'   ? &c.left
                 : flag == '0' ? &c.zero
                 : flag == '+' ? &c.sign
                 : flag == ' ' ? &c.blank
                 : flag == '#' ? &c.alternate
                               : nullptr;
      if (!to) break;
      *to = true;
    }
    c.width = number("width", 1'000'000);
    if (c.width < 0) c.left = true, c.width = -std::max<int64_t>(c.width, -1'000'000);
    c.width = std::min<int64_t>(c.width, 1'000'000);
    if (!rest_.empty() && rest_.front() == '.')
      take(), c.precision = std::clamp<int64_t>(number("precision", 1'000'000), 0, 1'000'000);
    while (!rest_.empty() && (rest_.front() == 'l' || rest_.front() == 'h' || rest_.front() == 'L')) take();
    c.type = take();
    return c;
  }

  std::string converted(const Conversion& c, const Value& value) {
    switch (c.type) {
      case 's':
      case 'r': {
        evaluation_.pay_for(value);
        std::string text = c.type == 's' ? value.to_text() : value.repr();
        return c.precision < 0 ? text : std::string(slice_text(text, 0, std::min(c.precision, length(text))));
      }
      case 'c': return character(value);
      case 'd':
      case 'i':
      case 'u': return whole(c, value.real() ? truncated(value.to_real()) : value.to_int("what %d writes"));
      case 'x':
      case 'X':
      case 'o': return whole(c, value.to_int("what %x writes"));
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return real(c, value.to_real());
      default: fail("the format has an unknown conversion");
    }
  }

  static int64_t truncated(double d) {
    if (!std::isfinite(d) || std::fabs(d) >= 9e18) fail("the number is too large");
    return int64_t(d);
  }
  static std::string with_sign(const Conversion& c, std::string digits, bool negative) {
    return (negative ? "-" : c.sign ? "+" : c.blank ? " " : "") + std::move(digits);
  }
  static std::string whole(const Conversion& c, int64_t n) {
    char digits[32];
    uint64_t size = n < 0 ? 0 - uint64_t(n) : uint64_t(n);
    std::snprintf(digits, sizeof digits,
                  c.type == 'x'   ? "%llx"
                  : c.type == 'X' ? "%llX"
                  : c.type == 'o' ? "%llo"
                                  : "%llu",
                  static_cast<unsigned long long>(size));
    std::string out = digits;
    if (c.precision > kMaxPrecision) fail("the format's precision is too large");
    if (int64_t(out.size()) < c.precision) out.insert(0, size_t(c.precision) - out.size(), '0');
    if (c.alternate && (c.type == 'x' || c.type == 'X' || c.type == 'o')) out = std::string("0") + c.type + out;
    return with_sign(c, std::move(out), n < 0);
  }
  static std::string real(const Conversion& c, double d) {
    if (c.precision > kMaxPrecision) fail("the format's precision is too large");
    const char format[] = {'%', '#', '.', '*', c.type, '\0'}, plain[] = {'%', '.', '*', c.type, '\0'};
    char digits[700];  // a double has at most 309 digits before the point
    std::snprintf(digits, sizeof digits, c.alternate ? format : plain, int(c.precision < 0 ? 6 : c.precision),
                  std::fabs(d));
    return with_sign(c, digits, std::signbit(d) && !std::isnan(d));
  }
  static std::string character(const Value& value) {
    if (value.text() && length(value.str()) == 1) return value.str();
    if (value.text()) fail("%c writes one character");
    int64_t code = value.to_int("what %c writes");
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail("%c writes one character");
    std::string out;
    utf8_append(out, char32_t(code));
    return out;
  }

  Evaluation& evaluation_;
  std::string_view rest_;
  const Value& arguments_;
  size_t taken_ = 0;  // of arguments_, by place
};

}  // namespace

Value formatted(Evaluation& evaluation, std::string_view format, const Value& arguments) {
  return Value(Formatter(evaluation, format, arguments).run());
}

}  // namespace jinja
