// H2FrameCutter: cuts what comes of one HTTP/2 connection into frames (RFC 9113 §4.1): DATA piece by piece as it comes,
// the others whole. Knows nothing of streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/h2_frame.h"

namespace weir::wire {

inline constexpr size_t kH2FrameHead = 9;

// Its nine octets.
inline FrameHead read_frame_head(const char* from) {
  auto at = [&](size_t i) { return uint32_t(uint8_t(from[i])); };
  FrameHead head;
  head.length = at(0) << 16 | at(1) << 8 | at(2);
  head.type = H2Frame(at(3));
  head.flags = uint8_t(at(4));
  head.stream = int32_t((at(5) & 0x7f) << 24 | at(6) << 16 | at(7) << 8 | at(8));
  return head;
}
inline void write_frame_head(char* to, size_t length, H2Frame type, uint8_t flags, int32_t stream) {
  const auto size = uint32_t(length), id = uint32_t(stream);
  to[0] = char(size >> 16), to[1] = char(size >> 8), to[2] = char(size);
  to[3] = char(type), to[4] = char(flags);
  to[5] = char(id >> 24), to[6] = char(id >> 16), to[7] = char(id >> 8), to[8] = char(id);
}

class H2FrameCutter {
 public:
  enum class Step : uint8_t {
    kMore,      // all bytes are used
    kFrame,     // head() and payload(): a frame that is not DATA, whole
    kDataHead,  // head(): DATA begins
    kContent,   // payload(): the next of its content; at_end() says whether that was the last of the frame
    kPadding,   // the same of what is not content
    kTooLarge,  // a frame is larger than largest(); nothing more can be read
    kBroken,    // DATA has more padding than payload; nothing more can be read
  };
  // Takes the next step's bytes from the front of `bytes`. Views are valid until the next call, and while `bytes` are.
  Step next(std::string_view& bytes);

  const FrameHead& head() const { return head_; }
  std::string_view payload() const { return payload_; }
  // Nothing of the DATA frame is missing.
  bool at_end() const { return content_ == 0 && padding_ == 0 && !pad_length_; }
  // Bytes of its content that come next; 0 outside of DATA.
  size_t content_left() const { return pad_length_ ? 0 : content_; }

  void set_largest(uint32_t bytes) { largest_ = bytes; }

 private:
  Step begin(std::string_view& bytes);
  Step go_on(std::string_view& bytes);
  Step go_on_with_data(std::string_view& bytes);
  Step begin_data();

  uint32_t largest_ = 1 << 14;
  FrameHead head_;
  std::string_view payload_;
  std::string kept_;                  // what has come of a frame that is not complete
  bool given_ = false;                // it was the last step's
  bool pad_length_ = false;           // the next byte is how much padding there is
  size_t content_ = 0, padding_ = 0;  // of DATA, that is missing
};

}  // namespace weir::wire
