// Ranges of characters as sequences of ranges of bytes.
#pragma once

#include <array>
#include <cstdint>

#include "grammar/grammar.h"

namespace grammar {

struct ByteRange {
  uint8_t first = 0, last = 0;
};

// The UTF-8 forms of the characters of `range`, which is normalized: calls each(const std::array<ByteRange, 4>&, size_t
// length) for sequences of byte ranges that together match exactly these.
template <class Each>
void each_utf8_sequence(CodeRange range, Each&& each) {
  constexpr uint32_t kLongest[] = {0x7f, 0x7ff, 0xffff, kLastCharacter};
  auto encode = [](uint32_t c, size_t length, std::array<uint8_t, 4>& out) {
    constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; c >>= 6) out[i] = uint8_t(0x80 | (c & 0x3f));
    out[0] = uint8_t(kLead[length] | c);
  };
  // Splits where the length changes, then where a part of the continuation bytes is not whole.
  auto split = [&](auto&& self, uint32_t first, uint32_t last) -> void {
    for (size_t i = 0; i < 3; ++i)
      if (first <= kLongest[i] && last > kLongest[i]) {
        self(self, first, kLongest[i]);
        return self(self, kLongest[i] + 1, last);
      }
    size_t length = 1;
    while (last > kLongest[length - 1]) ++length;
    for (size_t i = 1; i < length; ++i) {
      const uint32_t low = (1u << (6 * i)) - 1;
      if ((first & ~low) == (last & ~low)) continue;
      if ((first & low) != 0) {
        self(self, first, first | low);
        return self(self, (first | low) + 1, last);
      }
      if ((last & low) != low) {
        self(self, first, (last & ~low) - 1);
        return self(self, last & ~low, last);
      }
    }
    std::array<uint8_t, 4> from{}, to{};
    encode(first, length, from), encode(last, length, to);
    std::array<ByteRange, 4> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = {from[i], to[i]};
    each(bytes, length);
  };
  split(split, range.first, range.last);
}

}  // namespace grammar
