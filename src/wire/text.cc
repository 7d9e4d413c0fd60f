#include "wire/text.h"

#include <algorithm>
#include <array>

namespace weir::wire {
namespace {

// Length of the well-formed UTF-8 sequence at the front of `s`, or 0 (Unicode 15, table 3-7).
size_t utf8_length(std::string_view s) {
  auto at = [&](size_t i) { return i < s.size() ? uint8_t(s[i]) : uint8_t(0); };
  auto tail = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  uint8_t a = at(0), b = at(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf) return tail(1) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    bool ok = tail(1) && tail(2) && !(a == 0xe0 && b < 0xa0) && !(a == 0xed && b > 0x9f);
    return ok ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    bool ok = tail(1) && tail(2) && tail(3) && !(a == 0xf0 && b < 0x90) && !(a == 0xf4 && b > 0x8f);
    return ok ? 4 : 0;
  }
  return 0;
}

// Characters of an authority without user information (RFC 3986, section 3.2).
constexpr std::array<bool, 256> kOfAuthority = [] {
  std::array<bool, 256> table{};
  for (char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%!$&'()*+;=:[]"))
    table[uint8_t(c)] = true;
  return table;
}();

}  // namespace

bool is_authority(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return kOfAuthority[uint8_t(c)]; });
}

void append_json_text(std::string& out, std::string_view text) {
  while (!text.empty()) {
    size_t n = utf8_length(text);
    auto c = uint8_t(text[0]);
    if (n == 0) {
      out += "\xef\xbf\xbd";
    } else if (n > 1) {
      out += text.substr(0, n);
    } else if (c == '"' || c == '\\') {
      out += '\\', out += char(c);
    } else if (c < 0x20 || c == 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\u00", out += kHex[c >> 4], out += kHex[c & 15];
    } else {
      out += char(c);
    }
    text.remove_prefix(n == 0 ? 1 : n);
  }
}

std::string error_json(std::string_view text) {
  std::string out = "{\"error\":\"";
  append_json_text(out, text);
  out += "\"}";
  return out;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "";
  }
}

}  // namespace weir::wire
