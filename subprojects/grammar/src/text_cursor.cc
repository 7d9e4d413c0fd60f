#include "text_cursor.h"

#include <cstddef>

namespace grammar {

uint32_t TextCursor::character() {
  constexpr uint32_t kWrong = 0xfffd;
  const auto lead = uint8_t(text[at++]);
  if (lead < 0x80) return lead;
  const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < more) return kWrong;
  uint32_t c = lead & (0x3fu >> more);
  for (size_t i = 0; i < more; ++i) {
    if ((uint8_t(text[at + i]) & 0xc0) != 0x80) return kWrong;
    c = c << 6 | (uint8_t(text[at + i]) & 0x3f);
  }
  at += more;
  return c > 0x10ffff ? kWrong : c;
}

bool TextCursor::hex(int digits, uint32_t& out) {
  out = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const char c = peek();
    const int value = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (value < 0) return false;
    out = out << 4 | uint32_t(value);
  }
  return true;
}

bool TextCursor::number(uint32_t& out) {
  const size_t from = at;
  uint64_t value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at)
    if ((value = value * 10 + uint64_t(peek() - '0')) > 1'000'000'000) return false;
  out = uint32_t(value);
  return at > from;
}

bool TextCursor::bounds(uint32_t& least, uint32_t& most) {
  const size_t from = at;
  bool good = number(least);
  most = least;
  if (good && take(',') && !take('}')) {
    good = number(most) && take('}');
  } else if (good && text[at - 1] == '}') {
    most = UINT32_MAX;
  } else {
    good = good && take('}');
  }
  if (!good) at = from;
  return good;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    out += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  } else {
    out += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  }
}

}  // namespace grammar
