#include "dialects/ops/json_line.h"

#include <algorithm>
#include <charconv>

#include "base/utc_time.h"

namespace weir::ops {
namespace {

void quote(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr size_t kEscape = 6;
  out += '"';
  const size_t end = out.size() + JsonLine::kMostWritten - kEscape;
  for (unsigned char c : text.substr(0, JsonLine::kLongest)) {
    if (out.size() > end) break;
    if (c == '"' || c == '\\')
      (out += '\\') += char(c);
    else if (c >= 0x20 && c < 0x7f)
      out += char(c);
    else
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
  }
  out += '"';
}

}  // namespace

JsonLine::JsonLine(std::string& out, base::WallTime at) : out_(out) {
  out_ += "{\"time\":\"";
  base::append_utc(out_, at);
  out_ += '"';
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  if (value.empty()) return *this;
  ((out_ += ",\"") += key) += "\":";
  quote(out_, value);
  return *this;
}

JsonLine& JsonLine::number(std::string_view key, uint64_t value) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  (((out_ += ",\"") += key) += "\":").append(digits, end);
  return *this;
}

JsonLine& JsonLine::seconds(std::string_view key, base::Duration value) {
  auto ns = uint64_t(std::max<int64_t>(value.count(), 0));
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof digits, double(ns) * 1e-9, std::chars_format::fixed, 6).ptr;
  (((out_ += ",\"") += key) += "\":").append(digits, end);
  return *this;
}

}  // namespace weir::ops
