#include "dialects/ops/json_line.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>

namespace weir::ops {
namespace {

void quote(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (unsigned char c : text.substr(0, JsonLine::kLongest)) {
    if (c == '"' || c == '\\')
      (out += '\\') += char(c);
    else if (c >= 0x20 && c < 0x7f)
      out += char(c);
    else
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
  }
  out += '"';
}

// RFC 3339 in UTC, with microseconds.
void timestamp(std::string& out, base::WallTime at) {
  auto whole = std::chrono::floor<std::chrono::seconds>(at);
  std::time_t seconds = std::chrono::system_clock::to_time_t(whole);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char buffer[48];
  size_t n = std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%S.", &utc);
  auto micros = uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(at - whole).count());
  for (uint64_t scale = 100'000; scale > 0; scale /= 10) buffer[n++] = char('0' + micros / scale % 10);
  buffer[n++] = 'Z';
  out.append(buffer, n);
}

}  // namespace

JsonLine::JsonLine(std::string& out, base::WallTime at) : out_(out) {
  out_ += "{\"time\":\"";
  timestamp(out_, at);
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
