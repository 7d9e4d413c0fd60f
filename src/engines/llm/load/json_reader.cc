#include "engines/llm/load/json_reader.h"

#include <charconv>

namespace weir::llm {
namespace {

void append_utf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xc0 | c >> 6), out += char(0x80 | (c & 63));
  } else {
    out += char(0xe0 | c >> 12), out += char(0x80 | (c >> 6 & 63)), out += char(0x80 | (c & 63));
  }
}

}  // namespace

bool JsonReader::string(std::string& out) {
  out.clear();
  if (!take('"')) return false;
  while (at_ < text_.size()) {
    char c = text_[at_++];
    if (c == '"') return true;
    if (static_cast<unsigned char>(c) < 0x20) return false;
    if (c != '\\')
      out += c;
    else if (!escape(out))
      return false;
  }
  return false;
}

// Halves of surrogate pairs are taken as they are: names are compared, not shown.
bool JsonReader::escape(std::string& out) {
  if (at_ == text_.size()) return false;
  char c = text_[at_++];
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (size_t i = kFrom.find(c); i != kFrom.npos) {
    out += kTo[i];
    return true;
  }
  uint32_t code = 0;
  if (c != 'u' || text_.size() - at_ < 4) return false;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, code, 16);
  if (error != std::errc() || end != text_.data() + at_ + 4) return false;
  at_ += 4;
  append_utf8(code, out);
  return true;
}

bool JsonReader::number(uint64_t& out) {
  skip();
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
  if (error != std::errc() || (text_[at_] == '0' && end - (text_.data() + at_) > 1)) return false;
  at_ = size_t(end - text_.data());
  return true;
}

}  // namespace weir::llm
