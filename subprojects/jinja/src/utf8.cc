#include "utf8.h"

#include <cstdint>
#include <cstring>

namespace jinja {

bool is_ascii(std::string_view text) {
  size_t at = 0;
  for (uint64_t word; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) return false;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at == text.size();
}

std::string repaired(std::string_view bytes) {
  if (is_ascii(bytes)) return std::string(bytes);
  std::string out;
  out.reserve(bytes.size());
  size_t copied = 0;
  for (size_t at = 0; at < bytes.size();) {
    size_t from = at;
    UChar32 code = 0;
    U8_NEXT(bytes.data(), at, bytes.size(), code);
    if (code >= 0) continue;
    out.append(bytes.substr(copied, from - copied)).append("\xEF\xBF\xBD");
    copied = at;
  }
  return out.append(bytes.substr(copied));
}

}  // namespace jinja
