#include "base/encoding.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::base {
namespace {

constexpr std::string_view kHex = "0123456789ABCDEF";
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr std::array<int8_t, 256> kFromBase64 = [] {
  std::array<int8_t, 256> table{};
  table.fill(-1);
  for (size_t i = 0; i < kBase64.size(); ++i) table[uint8_t(kBase64[i])] = int8_t(i);
  return table;
}();

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

// Bytes of the well-formed character in front (Unicode 15, table 3-7), or 0.
size_t character(std::string_view s) {
  auto at = [&](size_t i) { return i < s.size() ? uint8_t(s[i]) : uint8_t(0); };
  auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const uint8_t a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf) return tail(1) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    bool out = (a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f);  // overlong, surrogates
    return tail(1) && tail(2) && !out ? 3 : 0;
  }
  bool out = (a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f);
  return a >= 0xf0 && a <= 0xf4 && tail(1) && tail(2) && tail(3) && !out ? 4 : 0;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += char(high << 4 | low);
    i += 2;
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (unreserved(c))
      out += c;
    else
      out += '%', out += kHex[uint8_t(c) >> 4], out += kHex[uint8_t(c) & 15];
  }
  return out;
}

std::string base64_encode(std::string_view bytes, Padding padding) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  out.resize(bytes.size() / 3 * 4);
  size_t i = 0;
  auto at = [&](size_t k) { return uint32_t(uint8_t(bytes[k])); };
  for (char* to = out.data(); i + 3 <= bytes.size(); i += 3, to += 4) {
    uint32_t v = at(i) << 16 | at(i + 1) << 8 | at(i + 2);
    to[0] = kBase64[v >> 18], to[1] = kBase64[v >> 12 & 63], to[2] = kBase64[v >> 6 & 63], to[3] = kBase64[v & 63];
  }
  size_t left = bytes.size() - i;
  if (left == 0) return out;
  uint32_t v = at(i) << 16 | (left == 2 ? at(i + 1) << 8 : 0);
  out += kBase64[v >> 18], out += kBase64[v >> 12 & 63];
  if (left == 2) out += kBase64[v >> 6 & 63];
  if (padding == Padding::kFull) out.append(3 - left, '=');
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  for (int i = 0; i < 2 && !text.empty() && text.back() == '=' && (text.size() + size_t(i)) % 4 == 0; ++i)
    text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t value = 0;
  int bits = 0;
  for (char c : text) {
    int digit = kFromBase64[uint8_t(c)];
    if (digit < 0) return std::nullopt;
    value = value << 6 | uint32_t(digit);
    bits += 6;
    if (bits >= 8) bits -= 8, out += char(value >> bits & 255);
  }
  return out;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) out += "0123456789abcdef"[uint8_t(c) >> 4], out += "0123456789abcdef"[uint8_t(c) & 15];
  return out;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > kLongestWord || b.size() > kLongestWord) return kLongestWord;
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t up = row[j];
      row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = up;
    }
  }
  return row[b.size()];
}

std::string_view cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && most - end < 3 && (uint8_t(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

std::string presentable(std::string_view text, size_t most) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f; };
  if (text.size() <= most && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out;
  while (!text.empty() && out.size() < most) {
    size_t size = character(text);
    bool control = size == 1 && text[0] != '\n' && (uint8_t(text[0]) < 0x20 || text[0] == 0x7f);
    if (size == 0 || control)
      out += '?';
    else
      out += text.substr(0, size);
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  if (!text.empty()) out += "...";
  return out;
}

}  // namespace weir::base
