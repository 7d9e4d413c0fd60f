// JsonScanner: whether a text that comes piece by piece is the beginning of one JSON value. Servers write JSON with
// white space and in an order of their own, so that nothing more can be held against it. One text; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace weir::forward {

class JsonScanner {
 public:
  enum class Value : uint8_t { kAny, kObject };
  explicit JsonScanner(Value value) : value_(value) {}

  static constexpr size_t kDeepest = 1000;
  // Whether the character would be white space between two parts of it.
  bool skips(char c) const {
    return at_ != At::kString && at_ != At::kEscape && at_ != At::kHex && at_ != At::kWord && is_in(kBlanks, c);
  }
  // False: it is not, or deeper than kDeepest. Then nothing more is taken.
  bool take(std::string_view piece) {
    for (char c : piece)
      if (!take(c)) return false;
    return true;
  }

 private:
  enum class At : uint8_t {
    kValue,
    kFirstElement,  // or the end of a list
    kFirstKey,      // or the end of an object
    kKey,
    kColon,
    kString,
    kEscape,
    kHex,
    kNumber,
    kWord,
    kBehind,  // a value
  };

  bool take(char c) {
    switch (at_) {
      case At::kString: return in_string(c);
      case At::kEscape: return escaped(c);
      case At::kHex: return at_ = --left_ == 0 ? At::kString : At::kHex, is_in("0123456789abcdefABCDEF", c);
      case At::kWord: return in_word(c);
      case At::kNumber:
        if (is_in("+-.eE0123456789", c)) return true;
        at_ = At::kBehind;
        break;
      default: break;
    }
    return is_in(kBlanks, c) || mark(c);
  }
  bool mark(char c) {
    const At at = at_;
    switch (at) {
      case At::kFirstElement:
      case At::kValue: return at == At::kFirstElement && c == ']' ? close(c) : begin(c);
      case At::kFirstKey:
      case At::kKey:
        if (at == At::kFirstKey && c == '}') return close(c);
        return at_ = At::kString, key_ = true, c == '"';
      case At::kColon: return at_ = At::kValue, c == ':';
      default: break;
    }
    if (open_.empty() || c != ',') return close(c);
    return at_ = open_.back() == '{' ? At::kKey : At::kValue, true;
  }
  bool begin(char c) {
    if (open_.empty() && value_ == Value::kObject && c != '{') return false;
    for (std::string_view word : {"true", "false", "null"})
      if (c == word.front()) return rest_ = word.substr(1), at_ = At::kWord, true;
    if (c == '"') return at_ = At::kString, key_ = false, true;
    if (c != '{' && c != '[') return at_ = At::kNumber, is_in("-0123456789", c);
    at_ = c == '{' ? At::kFirstKey : At::kFirstElement;
    open_ += c;
    return open_.size() <= kDeepest;
  }
  bool close(char c) {
    if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return false;
    open_.pop_back();
    return at_ = At::kBehind, true;
  }
  bool in_string(char c) {
    if (c == '"') return at_ = key_ ? At::kColon : At::kBehind, true;
    if (c == '\\') return at_ = At::kEscape, true;
    return uint8_t(c) >= 0x20;
  }
  bool escaped(char c) {
    if (c == 'u') return left_ = 4, at_ = At::kHex, true;
    return at_ = At::kString, is_in("\"\\/bfnrt", c);
  }
  bool in_word(char c) {
    if (rest_.front() != c) return false;
    rest_.remove_prefix(1);
    if (rest_.empty()) at_ = At::kBehind;
    return true;
  }
  static constexpr std::string_view kBlanks = " \t\r\n";
  static bool is_in(std::string_view all, char c) { return all.find(c) != all.npos; }

  const Value value_;
  At at_ = At::kValue;
  std::string open_;  // the lists and objects around it
  bool key_ = false;  // the string is one
  int left_ = 0;      // digits
  std::string_view rest_;
};

}  // namespace weir::forward
