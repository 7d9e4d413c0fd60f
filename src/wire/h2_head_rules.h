// H2HeadRules: whether a request's header block is well formed, as RFC 9113 §8.1 to §8.3 and §8.5 have it, and the
// priority that it asks for (RFC 9218). A test compares it with the checks of libnghttp2, by whose functions characters
// are judged. A block that came before was checked then.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <nghttp2/nghttp2.h>

namespace weir::wire {

// The value of a content-length field; -1: it is none (RFC 9110 §8.6).
int64_t parse_length(std::string_view digits);

class H2HeadRules {
 public:
  enum class Block : uint8_t { kRequest, kTrailers };

  // A block begins: all that was found of the last one is forgotten.
  void begin(Block block) { *this = H2HeadRules(block); }
  // A field of it, in their order. The value is as it came, spaces at its ends included. False: the block is malformed
  // by now, and nothing more of it matters.
  bool field(std::string_view name, std::string_view value);
  // The block is complete. False: the request is malformed.
  bool well_formed() const;
  // The priority that the block's fields ask for. Empty: it has none, or one that is not understood (RFC 9218 §4).
  std::optional<nghttp2_extpri> priority() const;

  H2HeadRules() = default;

 private:
  enum Seen : uint8_t { kMethod = 1, kScheme = 2, kPath = 4, kAuthority = 8, kProtocol = 16, kHost = 32 };

  explicit H2HeadRules(Block block) : block_(block) {}
  bool pseudo_field(std::string_view name, std::string_view value);
  bool regular_field(std::string_view name, std::string_view value);
  bool first(Seen name);
  bool seen(uint8_t all) const { return (seen_ & all) == all; }
  void read_priority(std::string_view value);

  Block block_ = Block::kRequest;
  uint8_t seen_ = 0;
  bool malformed_ = false;
  bool regular_ = false;  // a field that is no pseudo field has come: no pseudo field may follow
  bool connect_ = false, options_ = false, http_ = false, slash_ = false, asterisk_ = false;
  bool has_length_ = false;
  bool asks_priority_ = false, bad_priority_ = false;
  nghttp2_extpri priority_{NGHTTP2_EXTPRI_DEFAULT_URGENCY, 0};
};

}  // namespace weir::wire
