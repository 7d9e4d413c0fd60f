// The methods of Python's str that filters and methods share.
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "builtins.h"
#include "evaluation.h"
#include "utf8.h"

namespace jinja {

namespace {

constexpr size_t kMaxStripped = 256;

icu::UnicodeString wide(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), int32_t(text.size())));
}

// str.isspace()
bool space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return u_isUWhiteSpace(UChar32(c));
}

size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

std::string upper(std::string_view text) {
  std::string out;
  if (!is_ascii(text)) return wide(text).toUpper(icu::Locale::getRoot()).toUTF8String(out);
  for (char c : text) out += c >= 'a' && c <= 'z' ? char(c - 32) : c;
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  if (!is_ascii(text)) return wide(text).toLower(icu::Locale::getRoot()).toUTF8String(out);
  for (char c : text) out += c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  std::string out;
  size_t at = 0;
  utf8_append(out, char32_t(u_totitle(UChar32(utf8_next(text, at)))));
  return out += lower(text.substr(at));
}

std::string titled(std::string_view text) {
  std::string out;
  bool inside = false;  // a word
  for (size_t at = 0; at < text.size();) {
    auto c = UChar32(utf8_next(text, at));
    bool cased = u_hasBinaryProperty(c, UCHAR_CASED);
    utf8_append(out, char32_t(!cased ? c : inside ? u_tolower(c) : u_totitle(c)));
    inside = cased;
  }
  return out;
}

namespace {

template <class Goes>
std::string_view stripped_of(std::string_view text, Side side, Goes&& goes) {
  while (side != Side::kRight && !text.empty()) {
    size_t size = utf8_size(text[0]);
    if (!goes(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (side != Side::kLeft && !text.empty()) {
    size_t at = last_character(text);
    if (!goes(text.substr(at))) break;
    text = text.substr(0, at);
  }
  return text;
}

}  // namespace

std::string_view stripped(Evaluation& evaluation, std::string_view text, Side side, const Value& what) {
  if (!what.text()) return trimmed(text, side);
  if (what.str().size() > kMaxStripped) exceed_limit("strip takes at most 256 bytes of characters");
  evaluation.pay_for_search(text.size(), what.str().size());
  return stripped_of(text, side, [&](std::string_view c) { return what.str().find(c) != std::string::npos; });
}

std::string_view trimmed(std::string_view text, Side side) {
  return stripped_of(text, side, [](std::string_view c) { return space(utf8_code(c)); });
}

std::string replaced(Evaluation& evaluation, std::string_view text, std::string_view from, std::string_view to,
                     int64_t count) {
  std::string out;
  size_t done = 0, at = 0;
  evaluation.pay_for_search(text.size(), from.size());
  if (from.empty()) {  // between all characters
    while (count-- != 0) {
      evaluation.spend_bytes(to.size());
      out += to;
      if (at == text.size()) break;
      size_t size = utf8_size(text[at]);
      out += text.substr(at, size);
      at += size;
    }
    return out += text.substr(at);
  }
  while (count-- != 0 && (at = text.find(from, done)) != text.npos) {
    evaluation.spend_bytes(at - done + to.size());
    (out += text.substr(done, at - done)) += to;
    done = at + from.size();
  }
  return out += text.substr(done);
}

}  // namespace jinja
