// UTF-8 as Unicode's chapter 3.9 has it: what is well formed, and which bytes one U+FFFD stands for (the maximal
// subpart, as in the WHATWG decoder). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tokenizers {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Step {
  enum class Kind : uint8_t { kWhole, kIll, kCut };  // kCut: the text ends inside a sequence that is right so far
  Kind kind;
  uint8_t size;  // bytes, at least 1
};

// Reads the first sequence of `text`, which is not empty.
Utf8Step utf8_step(std::string_view text);
// The code point of a whole sequence of `size` bytes.
char32_t utf8_code(std::string_view sequence);
// The code point at `at` of a valid text; moves `at` behind it.
char32_t utf8_next(std::string_view text, size_t& at);
void utf8_append(std::string& out, char32_t code);

bool utf8_valid(std::string_view text);
// Appends `text`; every maximal ill-formed subpart becomes U+FFFD.
void utf8_append_lossy(std::string& out, std::string_view text);
// The number of bytes at the end of `text` that more bytes could complete to a sequence: 0..3.
size_t utf8_cut_tail(std::string_view text);

bool is_ascii(std::string_view text);

// Bytes of the character that begins with this byte, in valid text.
inline size_t utf8_size(char lead) {
  auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

}  // namespace tokenizers
