#include "base/base64url.h"

#include <algorithm>

#include "base/encoding.h"

namespace weir::base {
namespace {

int base64url_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '-' ? 62 : c == '_' ? 63 : -1;
}

// True if the last character has bits that no byte takes.
bool has_unused_bits(std::string_view text) {
  if (text.size() % 4 == 0) return false;
  const int unused = text.size() % 4 == 2 ? 15 : 3;  // two characters are 12 bits, three are 18
  return (base64url_digit(text.back()) & unused) != 0;
}

}  // namespace

std::optional<std::string> base64url_decode(std::string_view text, Base64Url form) {
  if (form == Base64Url::kStrict && (text.find_first_of("+/=") != text.npos || has_unused_bits(text)))
    return std::nullopt;
  std::string standard(text);
  std::replace(standard.begin(), standard.end(), '-', '+');
  std::replace(standard.begin(), standard.end(), '_', '/');
  return base64_decode(standard);
}

}  // namespace weir::base
