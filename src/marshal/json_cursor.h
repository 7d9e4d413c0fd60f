// JsonCursor: a strict pull reader of one JSON document (RFC 8259), made for bodies that are mostly numbers.
//
//   JsonCursor c(body);
//   bool ok = c.object([&](std::string_view key) {
//     if (key == "id") return c.string(id);
//     return c.skip();
//   }) && c.finish();
//
// Every call consumes one value and answers whether that went well; after the first error all calls answer false and
// error() says what was expected and at which byte. Nothing is accepted unread: skip() checks what it passes over, and
// finish() refuses anything but white space behind the document. Text is checked to be UTF-8 before the first call.
// Duplicate keys are the caller's to see (it is called once for each).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace weir::marshal {

// A JSON number as read: `digits` × 10^`exponent`, and its text for the cases that need more than 19 digits.
struct JsonNumber {
  std::string_view text;
  uint64_t digits = 0;
  int32_t exponent = 0;
  bool negative = false;
  bool truncated = false;  // `digits` holds only the first 19 significant ones
  bool integral = true;    // written without fraction and exponent

  // Correctly rounded. False when the number is beyond the type's range; what is too small becomes zero.
  bool to(double& out) const;
  bool to(float& out) const;
  // False when it is not a whole number (2.0 and 2e3 are whole) or does not fit.
  bool to(int64_t& out) const;
  bool to(uint64_t& out) const;
};

class JsonCursor {
 public:
  static constexpr int kMaxDepth = 100;

  explicit JsonCursor(std::string_view text);

  enum class Kind : uint8_t { kObject, kArray, kString, kNumber, kBool, kNull, kNone };
  // Whether a number comes next; false for anything else.
  bool at_number() {
    space();
    return p_ < end_ && (*p_ == '-' || unsigned(*p_ - '0') < 10);
  }
  Kind peek();  // of the value that comes next; kNone at the end or where no value can begin

  Kind peek_inside();  // of the first element of the array that comes next; kNone when that is empty or no array

  // Calls `member(key)` for each member; it must consume the value and answer whether all is well. The key is a view
  // that the next string() or key may overwrite.
  template <class F>
  bool object(F&& member) {
    if (!enter('{', "an object")) return false;
    if (leave('}')) return true;
    do {
      std::string_view key;
      if (!string(key, key_) || !colon() || !member(key)) return refuse();
    } while (comma());
    return close('}');
  }
  // Calls `element()` for each element; the same rules.
  template <class F>
  bool array(F&& element) {
    if (!enter('[', "an array")) return false;
    if (leave(']')) return true;
    do {
      if (!element()) return refuse();
    } while (comma());
    return close(']');
  }

  // A view into the document, or into the cursor when the string has escapes (until the next string).
  bool string(std::string_view& out) { return string(out, text_buffer_); }
  bool string(std::string& out);
  bool number(JsonNumber& out);
  // The short way for most numbers of tensors: one of up to 15 places without an exponent, rounded correctly. False,
  // with nothing consumed, where it is anything else; then number() has the word.
  bool plain(double& out);
  bool plain(float& out);
  bool boolean(bool& out);
  bool null();
  bool skip();
  // Nothing but white space is left.
  bool finish();

  // Where the next value begins, to come back to it: at() then rewind(). Depth is the caller's to keep equal.
  size_t at();
  void rewind(size_t at) { p_ = begin_ + at; }
  // The text from there to here: of the values read since at().
  std::string_view since(size_t at) const { return {begin_ + at, size_t(p_ - begin_ - ptrdiff_t(at))}; }
  size_t left() const { return size_t(end_ - p_); }

  bool ok() const { return error_.empty(); }
  // INVALID_ARGUMENT with the reason and the byte offset.
  base::Status error() const;
  // The same, and the path of the value: ", in inputs[0].shape".
  base::Status placed_error() const;
  // Refuses the document for a reason of the caller's; the first reason stays. Always false.
  [[gnu::cold]] bool fail(std::string_view reason);
  bool refuse() { return ok() ? fail("a value was refused") : false; }

 private:
  Kind kind_at(const char* p) const;
  bool enter(char bracket, const char* what);
  bool leave(char bracket);
  bool close(char bracket);
  bool comma() {
    space();
    if (p_ == end_ || *p_ != ',') return false;
    ++p_;
    return true;
  }
  bool colon();
  bool string(std::string_view& out, std::string& buffer);
  bool escaped(std::string_view& out, std::string& buffer, const char* from);
  bool escape(std::string& buffer);
  bool hex4(uint32_t& out);
  bool literal(std::string_view word);
  void space() {
    while (p_ < end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
  }

  const char* begin_;
  const char* p_;
  const char* end_;
  int depth_ = 0;
  std::string error_;
  size_t error_at_ = 0;
  std::string key_, text_buffer_;
};

// Whether the bytes are UTF-8 (RFC 3629).
bool valid_utf8(std::string_view text);

}  // namespace weir::marshal
