#include "wire/request_id.h"

#include <algorithm>
#include <cstring>

#include "wire/text.h"

namespace weir::wire {

IdFields id_fields_of(const Fields& fields) {
  IdFields found;
  for (size_t i = 0; i < fields.size(); ++i) {
    auto [name, value] = fields[i];
    if (name.size() == 11)
      found.traced = found.traced || name == "traceparent";
    else if (name.size() != 12)
      continue;
    else if (name == "x-request-id" && !found.id.data())
      found.id = value;
    else if (name == "content-type" && !found.content_type.data())
      found.content_type = value;
  }
  return found;
}

bool is_safe_id(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  return std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_' || c == '-';
  });
}

// Eight nibbles at a time are spread over eight bytes.
std::array<char, 16> make_id(uint64_t bits) {
  std::array<char, 16> digits;
  for (size_t half = 0; half < 2; ++half, bits >>= 32) {
    uint64_t v = bits & 0xffffffff;
    v = (v | v << 16) & 0x0000ffff0000ffff;
    v = (v | v << 8) & 0x00ff00ff00ff00ff;
    v = (v | v << 4) & 0x0f0f0f0f0f0f0f0f;
    const uint64_t letters = (v + 0x0606060606060606) >> 4 & 0x0101010101010101;
    v += 0x3030303030303030 + letters * ('a' - '0' - 10);
    std::memcpy(&digits[8 * half], &v, 8);
  }
  return digits;
}

}  // namespace weir::wire
