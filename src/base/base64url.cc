#include "base/base64url.h"

#include <algorithm>
#include <cstdint>

#include "base/encoding.h"

namespace weir::base {
namespace {

int base64url_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

std::optional<std::string> decode_lenient(std::string text) {
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  return base64_decode(text);
}

}  // namespace

std::optional<std::string> base64url_decode(std::string_view text, Base64Url form) {
  if (form == Base64Url::kLenient) return decode_lenient(std::string(text));
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t value = 0;
  unsigned bits = 0;
  for (char c : text) {
    int digit = base64url_digit(c);
    if (digit < 0) return std::nullopt;
    value = (value << 6 | uint32_t(digit)) & 0xffff;
    bits += 6;
    if (bits >= 8) bits -= 8, out += char(value >> bits & 255);
  }
  if ((value & ((1u << bits) - 1)) != 0) return std::nullopt;
  return out;
}

}  // namespace weir::base
