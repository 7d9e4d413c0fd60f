#include "marshal/json_cursor.h"

#include <simdjson.h>

#include <bit>
#include <charconv>
#include <cstring>

#include "marshal/json_path.h"

namespace weir::marshal {
namespace {

bool digit(const char* p, const char* end) { return p < end && unsigned(*p - '0') < 10; }

// Where the characters of a string end that stand for themselves: at a quote, a backslash or a control character. Eight
// bytes a step: the high bit of a byte shows that it was below 0x20, or zero after the exclusive or; a borrow can only
// add false alarms above a true one.
const char* plain_end(const char* p, const char* end) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  for (; end - p >= 8; p += 8) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    uint64_t quote = v ^ (kOnes * '"'), backslash = v ^ (kOnes * '\\');
    uint64_t found =
        (((v - kOnes * 0x20) & ~v) | ((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash)) & kHigh;
    if (found) return p + std::countr_zero(found) / 8;
  }
  while (p < end && *p != '"' && *p != '\\' && uint8_t(*p) >= 0x20) ++p;
  return p;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xc0 | (code >> 6));
    out += char(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += char(0xe0 | (code >> 12));
    out += char(0x80 | ((code >> 6) & 0x3f));
    out += char(0x80 | (code & 0x3f));
  } else {
    out += char(0xf0 | (code >> 18));
    out += char(0x80 | ((code >> 12) & 0x3f));
    out += char(0x80 | ((code >> 6) & 0x3f));
    out += char(0x80 | (code & 0x3f));
  }
}

// The first character of a text that makes it no UTF-8. Most of the text is looked through at the library's speed.
const char* first_wrong(std::string_view text) {
  constexpr size_t kPart = 4096, kLongest = 4;
  const auto follows = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  size_t at = 0;
  while (text.size() - at > kPart) {
    size_t end = at + kPart;
    while (end > at + kPart - kLongest && follows(end)) --end;
    if (!valid_utf8(text.substr(at, end - at))) break;
    at = end;
  }
  const auto one = [&](size_t length) { return at + length <= text.size() && valid_utf8(text.substr(at, length)); };
  while (at < text.size()) {
    size_t length = 1;
    while (length <= kLongest && !one(length)) ++length;
    if (length > kLongest) break;
    at += length;
  }
  return text.data() + at;
}

}  // namespace

// Most names are short and plain ASCII: seen here, before the library has found out which processor it runs on.
bool valid_utf8(std::string_view text) {
  constexpr size_t kShort = 32;
  if (text.size() <= kShort) {
    unsigned char all = 0;
    for (char c : text) all |= static_cast<unsigned char>(c);
    if (all < 0x80) return true;
  }
  return simdjson::validate_utf8(text.data(), text.size());
}

JsonCursor::JsonCursor(std::string_view text) : begin_(text.data()), p_(begin_), end_(begin_ + text.size()) {
  if (text.starts_with("\xEF\xBB\xBF")) p_ += 3;  // RFC 8259 §8.1; PowerShell writes files with it
  if (valid_utf8(text)) return;
  p_ = first_wrong(text);
  fail("text that is not UTF-8");
}

bool JsonCursor::fail(std::string_view reason) {
  if (error_.empty()) error_ = reason, error_at_ = size_t(p_ - begin_);
  p_ = end_;  // everything that follows fails too
  return false;
}

base::Status JsonCursor::error() const {
  return base::invalid("JSON: " + error_ + " at byte " + std::to_string(error_at_));
}

base::Status JsonCursor::placed_error() const {
  base::Status status = error();
  std::string path = json_path({begin_, size_t(end_ - begin_)}, error_at_);
  if (!path.empty()) status.text += ", in " + path;
  return status;
}

JsonCursor::Kind JsonCursor::peek() {
  space();
  return kind_at(p_);
}

JsonCursor::Kind JsonCursor::peek_inside() {
  if (peek() != Kind::kArray) return Kind::kNone;
  const char* p = p_ + 1;
  while (p < end_ && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
  return kind_at(p);
}

JsonCursor::Kind JsonCursor::kind_at(const char* p) const {
  if (p == end_) return Kind::kNone;
  switch (*p) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't':
    case 'f': return Kind::kBool;
    case 'n': return Kind::kNull;
    default: return *p == '-' || digit(p, end_) ? Kind::kNumber : Kind::kNone;
  }
}

size_t JsonCursor::at() {
  space();
  return size_t(p_ - begin_);
}

bool JsonCursor::enter(char bracket, const char* what) {
  space();
  if (p_ == end_ || *p_ != bracket) return fail(std::string("expected ") + what);
  if (++depth_ > kMaxDepth) return fail("nested deeper than 100 levels");
  ++p_;
  return true;
}

bool JsonCursor::leave(char bracket) {
  space();
  if (p_ == end_ || *p_ != bracket) return false;
  ++p_, --depth_;
  return true;
}

bool JsonCursor::close(char bracket) {
  if (leave(bracket)) return true;
  return fail(std::string("expected ',' or '") + bracket + "'");
}

bool JsonCursor::colon() {
  space();
  if (p_ == end_ || *p_ != ':') return fail("expected ':'");
  ++p_;
  return true;
}

bool JsonCursor::string(std::string& out) {
  std::string_view view;
  if (!string(view)) return false;
  out.assign(view);
  return true;
}

bool JsonCursor::string(std::string_view& out, std::string& buffer) {
  space();
  if (p_ == end_ || *p_ != '"') return fail("expected a string");
  const char* from = ++p_;
  const char* p = plain_end(from, end_);
  p_ = p;
  if (p == end_ || *p != '"') return escaped(out, buffer, from);
  out = {from, size_t(p - from)};
  ++p_;
  return true;
}

bool JsonCursor::escaped(std::string_view& out, std::string& buffer, const char* from) {
  buffer.assign(from, p_);
  for (; p_ < end_; ++p_) {
    if (*p_ == '"') {
      ++p_;
      out = buffer;
      return true;
    }
    if (uint8_t(*p_) < 0x20) return fail("a control character in a string");
    if (*p_ != '\\')
      buffer += *p_;
    else if (!escape(buffer))
      return false;
  }
  return fail("a string without end");
}

bool JsonCursor::hex4(uint32_t& out) {
  if (end_ - p_ < 5) return fail("a cut escape");
  auto [end, error] = std::from_chars(p_ + 1, p_ + 5, out, 16);
  if (error != std::errc() || end != p_ + 5) return fail("a bad \\u escape");
  p_ += 4;
  return true;
}

// p_ is at the backslash, and stays on the escape's last character.
bool JsonCursor::escape(std::string& buffer) {
  if (++p_ == end_) return fail("a cut escape");
  static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (size_t i = kFrom.find(*p_); i != kFrom.npos) {
    buffer += kTo[i];
    return true;
  }
  uint32_t code, low;
  if (*p_ != 'u') return fail("an unknown escape");
  if (!hex4(code)) return false;
  if (code >= 0xd800 && code < 0xe000) {
    if (code >= 0xdc00 || end_ - p_ < 3 || p_[1] != '\\' || p_[2] != 'u') return fail("half a surrogate pair");
    p_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(buffer, code);
  return true;
}

bool JsonCursor::literal(std::string_view word) {
  if (size_t(end_ - p_) < word.size() || std::string_view(p_, word.size()) != word) return fail("expected a value");
  p_ += word.size();
  return true;
}

bool JsonCursor::boolean(bool& out) {
  space();
  if (p_ == end_ || (*p_ != 't' && *p_ != 'f')) return fail("expected true or false");
  out = *p_ == 't';
  return literal(out ? "true" : "false");
}

bool JsonCursor::null() {
  space();
  return literal("null");
}

bool JsonCursor::skip() {
  bool flag;
  std::string_view text;
  JsonNumber ignored;
  switch (peek()) {
    case Kind::kObject: return object([&](std::string_view) { return skip(); });
    case Kind::kArray: return array([&] { return skip(); });
    case Kind::kString: return string(text);
    case Kind::kNumber: return number(ignored);
    case Kind::kBool: return boolean(flag);
    case Kind::kNull: return null();
    case Kind::kNone: break;
  }
  return fail("expected a value");
}

bool JsonCursor::finish() {
  space();
  if (!ok()) return false;
  return p_ == end_ ? true : fail("something follows the document");
}

}  // namespace weir::marshal
