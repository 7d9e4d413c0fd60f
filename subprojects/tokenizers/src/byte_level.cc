#include "byte_level.h"

#include <array>
#include <cstdint>

#include "utf8.h"

namespace tokenizers {

namespace {

constexpr bool as_itself(unsigned b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD); }

// By code point: the byte, or -1.
constexpr std::array<int16_t, 0x144> make_bytes() {
  std::array<int16_t, 0x144> bytes{};
  for (auto& b : bytes) b = -1;
  size_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) bytes[as_itself(b) ? b : next++] = int16_t(b);
  return bytes;
}

constexpr auto kBytes = make_bytes();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelled) {
  std::string out;
  out.reserve(spelled.size());
  for (size_t at = 0; at < spelled.size();) {
    char32_t code = utf8_next(spelled, at);
    if (code >= kBytes.size() || kBytes[code] < 0) return std::nullopt;
    out += char(kBytes[code]);
  }
  return out;
}

}  // namespace tokenizers
