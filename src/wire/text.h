// Small pieces of HTTP field syntax (RFC 9110 §5.6) that gate, codecs and router share.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace weir::wire {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; }

// Equal but for ASCII case.
constexpr bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

// Whether there is a control character (below a blank, or DEL) in `text`: eight bytes a step.
inline bool has_control(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  uint64_t found = 0;
  while (text.size() >= 8) {
    uint64_t v;
    std::memcpy(&v, text.data(), 8);
    uint64_t del = v ^ (kOnes * 0x7f);
    // A byte's high bit: the byte was less than n and had no high bit itself. A borrow can only add false alarms in
    // bytes above a true one.
    found |= ((v - kOnes * 0x20) & ~v & kHigh) | ((del - kOnes) & ~del & kHigh);
    text.remove_prefix(8);
  }
  for (char c : text) found |= uint64_t(uint8_t(c) < 0x20 || c == 0x7f);
  return found != 0;
}

// Without spaces and tabs at both ends.
constexpr std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Calls `each` with the trimmed, non-empty elements of a comma-separated list.
template <class F>
void for_each_element(std::string_view list, F each) {
  while (!list.empty()) {
    size_t comma = list.find(',');
    std::string_view element = trim(list.substr(0, comma));
    if (!element.empty()) each(element);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
}

inline bool has_element(std::string_view list, std::string_view element) {
  bool found = false;
  for_each_element(list, [&](std::string_view e) { found = found || same_text(e, element); });
  return found;
}

// `text` as the inside of a JSON string: quotes, backslashes and control characters escaped; invalid UTF-8 replaced
// by U+FFFD, so that what a peer sent can be quoted back.
void append_json_text(std::string& out, std::string_view text);
// {"error":"<text>"}
std::string error_json(std::string_view text);

// The registered reason phrase (RFC 9110 §15), "" for an unknown one.
std::string_view reason_phrase(int status);

}  // namespace weir::wire
