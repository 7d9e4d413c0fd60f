// H2ClientHeadRules: checks whether the header block of a response is well formed (RFC 9113 §8.1 to §8.3). It agrees
// with the checks of libnghttp2, whose functions judge the characters. For requests see h2_head_rules.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::wire {

class H2ClientHeadRules {
 public:
  enum class Block : uint8_t { kHead, kTrailers };
  enum class Field : uint8_t {
    kKept,
    kNeedless,   // to be left out: `content-length: 0` of a 204
    kMalformed,  // the whole block is malformed; no further field need be checked
  };

  // A block begins: all that was found of the last one is forgotten.
  void begin(Block block) { *this = H2ClientHeadRules(block); }
  // A field of it, in their order. The value is as it came, spaces at its ends included.
  Field field(std::string_view name, std::string_view value);
  // The block is complete.
  bool well_formed() const { return !malformed_ && (block_ == Block::kTrailers || status_ != 0); }

  // 0: it has none.
  int status() const { return status_; }
  // The value of its content-length field; -1: it has none.
  int64_t content_length() const { return content_length_; }

  H2ClientHeadRules() = default;

 private:
  explicit H2ClientHeadRules(Block block) : block_(block) {}
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
