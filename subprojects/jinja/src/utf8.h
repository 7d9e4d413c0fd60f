// UTF-8, by ICU's macros. All but repaired() take valid text.
#pragma once

#include <unicode/utf8.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace jinja {

bool is_ascii(std::string_view text);
// A copy of any bytes; every maximal ill-formed subsequence becomes U+FFFD (Unicode, chapter 3.9).
std::string repaired(std::string_view bytes);

// Bytes of the character that begins with this byte.
inline size_t utf8_size(char lead) { return size_t(U8_COUNT_TRAIL_BYTES_UNSAFE(static_cast<unsigned char>(lead))) + 1; }

// The code point at `at`; moves `at` behind it.
inline char32_t utf8_next(std::string_view text, size_t& at) {
  UChar32 code = 0;
  U8_NEXT_UNSAFE(text.data(), at, code);
  return char32_t(code);
}

// The first code point of a text that is not empty.
inline char32_t utf8_code(std::string_view text) {
  size_t at = 0;
  return utf8_next(text, at);
}

inline void utf8_append(std::string& out, char32_t code) {
  char bytes[U8_MAX_LENGTH];
  size_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, code);
  out.append(bytes, size);
}

}  // namespace jinja
