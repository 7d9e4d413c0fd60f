// Small pieces of HTTP field syntax (RFC 9110 §5.6) that gate, codecs and router share.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace weir::wire {

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; }

// The `size` characters at `text` to lower case: eight bytes a step. A byte's high bit, where the byte has none itself:
// at least 'A' after the first sum, beyond 'Z' after the second.
inline void make_lower(char* text, size_t size) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    uint64_t v;
    std::memcpy(&v, text + i, 8);
    uint64_t low = v & ~kHigh;
    uint64_t capital = ((low + kOnes * (0x80 - 'A')) ^ (low + kOnes * (0x7f - 'Z'))) & ~v & kHigh;
    v |= capital >> 2;
    std::memcpy(text + i, &v, 8);
  }
  for (; i < size; ++i) text[i] = lower(text[i]);
}

// Equal but for ASCII case.
constexpr bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

// Whether there is a control character (below a blank, or DEL) in `text`: eight bytes a step, the last eight once more
// where they are not another step.
inline bool has_control(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  // A byte's high bit: the byte was less than n and had no high bit itself. A borrow can only add false alarms in
  // bytes above a true one.
  auto found_in = [](const char* at) {
    uint64_t v;
    std::memcpy(&v, at, 8);
    uint64_t del = v ^ (kOnes * 0x7f);
    return ((v - kOnes * 0x20) & ~v & kHigh) | ((del - kOnes) & ~del & kHigh);
  };
  uint64_t found = 0;
  if (text.size() < 8) {
    for (char c : text) found |= uint64_t(uint8_t(c) < 0x20 || c == 0x7f);
    return found != 0;
  }
  const char *at = text.data(), *last = at + text.size() - 8;
  for (; at < last; at += 8) found |= found_in(at);
  return (found | found_in(last)) != 0;
}

inline std::string lowered(std::string_view text) {
  std::string out(text);
  make_lower(out.data(), out.size());
  return out;
}

// Responses with these statuses have no body (RFC 9110 §6.4.1).
constexpr bool bodiless(int status) { return status < 200 || status == 204 || status == 304; }

// Fields that belong to the connection, so to the codec (RFC 9110 §7.6.1): HTTP/2 has none of them (RFC 9113 §8.2.2).
constexpr bool is_about_connection(std::string_view name) {
  switch (name.size()) {
    case 7: return name == "upgrade";
    case 10: return name == "connection" || name == "keep-alive";
    case 16: return name == "proxy-connection";
    case 17: return name == "transfer-encoding";
    default: return false;
  }
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

// Whether a Content-Type is of that media type, whatever its parameters (RFC 9110 §8.3.1).
inline bool is_media_type(std::string_view field, std::string_view type) {
  return same_text(trim(field.substr(0, field.find(';'))), type);
}

// Only characters that a Host field or :authority may have (RFC 3986 §3.2.2 reg-name and IP-literal, and the port's
// colon), without the list separator ',': nothing that somebody could take for a path, a query or a user's name.
bool is_authority(std::string_view text);

// `text` as the inside of a JSON string: quotes, backslashes and control characters escaped; invalid UTF-8 replaced
// by U+FFFD, so that what a peer sent can be quoted back.
void append_json_text(std::string& out, std::string_view text);
// {"error":"<text>"}
std::string error_json(std::string_view text);

// The registered reason phrase (RFC 9110 §15), "" for an unknown one.
std::string_view reason_phrase(int status);

}  // namespace weir::wire
