#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace weir::text {

namespace {

constexpr bool as_itself(unsigned b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD); }

struct Table {
  std::array<uint16_t, 256> code{};   // byte -> code point
  std::array<int16_t, 0x144> byte{};  // code point -> byte, or -1
};

constexpr Table make_table() {
  Table table;
  for (auto& b : table.byte) b = -1;
  uint16_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    table.code[b] = as_itself(b) ? uint16_t(b) : next++;
    table.byte[table.code[b]] = int16_t(b);
  }
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelled) {
  std::string out;
  out.reserve(spelled.size());
  for (size_t at = 0; at < spelled.size();) {
    char32_t code = utf8_next(spelled, at);
    if (code >= kTable.byte.size() || kTable.byte[code] < 0) return std::nullopt;
    out += char(kTable.byte[code]);
  }
  return out;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string out;
  for (char b : bytes) utf8_append(out, kTable.code[static_cast<unsigned char>(b)]);
  return out;
}

}  // namespace weir::text
