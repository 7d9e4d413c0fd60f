// JsonReader: walks the one kind of JSON that a safetensors header is: objects, arrays, strings, whole numbers. Strict:
// no number below 0 or above 2^64 - 1, no signs, fractions or exponents.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::llm {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Calls each(key) at each value; it reads the value and returns false to give up.
  template <class F>
  bool object(F&& each) {
    if (!take('{')) return false;
    if (take('}')) return true;
    std::string key;
    do {
      if (!string(key) || !take(':') || !each(key)) return false;
    } while (take(','));
    return take('}');
  }
  template <class F>
  bool array(F&& each) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!each()) return false;
    } while (take(','));
    return take(']');
  }
  bool string(std::string& out);
  bool number(uint64_t& out);
  bool at_end() {
    skip();
    return at_ == text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool escape(std::string& out);

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace weir::llm
