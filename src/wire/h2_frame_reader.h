// H2FrameReader: cuts what a client sends on one HTTP/2 connection into frames (RFC 9113 §4.1). DATA and header blocks
// come piece by piece as they arrive, so that no more is kept than a small frame; control frames come whole. Knows
// nothing of streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/release.h"
#include "wire/h2_frame.h"

namespace weir::wire {

class H2FrameReader {
 public:
  enum class Step : uint8_t {
    kMore,     // all bytes are used
    kHead,     // head(): a frame begins. Where its length is not what it may be, nothing more is to be read
    kControl,  // payload(): of a control frame, whole; of GOAWAY its first octets alone
    kBlock,    // payload(): the next piece of a header block; first() and at_end() say where in its frame
    kContent,  // payload(): the next piece of DATA's content
    kPadding,  // payload(): what else counts against DATA's windows
    kNothing,  // a part of a frame that says nothing
    kShort,    // the frame is too short for what its flags say; nothing more can be read
    kBroken,   // it has more padding than payload; nothing more can be read
  };
  // Takes the next step's bytes from the front of `bytes`. Views are valid until the next call, and while `bytes` are.
  Step next(std::string_view& bytes);

  // Gives memory back, where nothing of a frame is kept.
  void shrink() {
    if (kept_.empty()) base::release(kept_);
  }

  const FrameHead& head() const { return head_; }
  std::string_view payload() const { return payload_; }
  // For DATA: nothing of its content and padding is missing.
  bool at_end() const { return content_ == 0 && padding_ == 0; }
  // For a piece of a header block: it begins its frame, it is the frame's last one.
  bool first() const { return first_; }
  bool last() const { return content_ == 0; }
  // The stream that HEADERS with a priority name; -1: there is none.
  int32_t depends_on() const { return depends_on_; }

 private:
  enum class State : uint8_t { kHead, kWhole, kLead, kPieces };

  bool keep(std::string_view& bytes, size_t size);
  Step begin();
  State state_of_frame() const;
  Step read_whole(std::string_view& bytes);
  Step read_lead(std::string_view& bytes);
  Step read_piece(std::string_view& bytes);
  Step cut_block();
  size_t lead_size() const;
  size_t read_lead_of_block(std::string_view lead);

  State state_ = State::kHead;
  FrameHead head_;
  std::string_view payload_;
  std::string kept_;    // what has come of a head, of a small frame, or of what leads a larger one
  bool given_ = false;  // it was the last step's
  bool first_ = false;
  int32_t depends_on_ = -1;
  uint32_t whole_ = 0;                  // bytes of the frame that come at once
  uint32_t content_ = 0, padding_ = 0;  // of the frame, that are missing
};

}  // namespace weir::wire
