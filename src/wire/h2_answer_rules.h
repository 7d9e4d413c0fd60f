// H2AnswerRules: whether a header block of an answer is well formed, as RFC 9113 §8.1 to §8.3 has it and as libnghttp2
// finds it with its own checks. Characters are judged by that library's functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::wire {

class H2AnswerRules {
 public:
  enum class Block : uint8_t { kHead, kTrailers };
  enum class Field : uint8_t {
    kKept,
    kNeedless,   // it says nothing: `content-length: 0` of a 204
    kMalformed,  // the block is, and nothing more of it matters
  };

  // A block begins: all that was found of the last one is forgotten.
  void begin(Block block) { *this = H2AnswerRules(block); }
  // A field of it, in their order. The value is as it came, spaces at its ends included.
  Field field(std::string_view name, std::string_view value);
  // The block is complete.
  bool well_formed() const { return !malformed_ && (block_ == Block::kTrailers || status_ != 0); }

  // 0: it has none.
  int status() const { return status_; }
  // The value of its content-length field; -1: it has none.
  int64_t content_length() const { return content_length_; }

  H2AnswerRules() = default;

 private:
  explicit H2AnswerRules(Block block) : block_(block) {}
  bool read_status(std::string_view value);
  bool read_length(std::string_view value);
  Field regular_field(std::string_view name, std::string_view value);

  Block block_ = Block::kHead;
  bool malformed_ = false;
  bool regular_ = false;  // a field that is no pseudo field has come: no pseudo field may follow
  int status_ = 0;
  int64_t content_length_ = -1;
};

}  // namespace weir::wire
