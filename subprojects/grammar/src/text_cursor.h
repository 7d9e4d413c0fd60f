// TextCursor: a text read character by character.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace grammar {

struct TextCursor {
  std::string_view text;
  size_t at = 0;

  bool end() const { return at >= text.size(); }
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool take(char c) {
    if (end() || text[at] != c) return false;
    return ++at, true;
  }
  bool take(std::string_view word) {
    if (!text.substr(std::min(at, text.size())).starts_with(word)) return false;
    return at += word.size(), true;
  }
  // A UTF-8 character; a byte that is none is U+FFFD.
  uint32_t character();
  // Exactly `digits` hexadecimal digits. False: they are not there.
  bool hex(int digits, uint32_t& out);
  // Decimal digits, at most 10^9. False: there are none, or too many.
  bool number(uint32_t& out);
  // "{m}", "{m,}", "{m,n}" behind the brace, with it. `most` is UINT32_MAX where it is open. False: it is not one.
  bool bounds(uint32_t& least, uint32_t& most);
};

// The UTF-8 form of a character.
void append_utf8(std::string& out, uint32_t character);

}  // namespace grammar
