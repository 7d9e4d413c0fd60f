// H2FrameWriter: the frames that one HTTP/2 connection sends (RFC 9113 §6), one behind the other for its socket. It
// knows nothing of streams, nor of windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/h2_frame.h"
#include "wire/h2_output.h"

namespace weir::wire {

class H2FrameWriter {
 public:
  // RFC 9113 §6.5.1.
  struct Setting {
    uint16_t id;
    uint32_t value;
  };

  void put(H2Frame type, uint8_t flags, int32_t stream, std::string_view payload);
  // A header block, in as many frames as it takes; `flags`: those of HEADERS, but for END_HEADERS.
  void head(uint8_t flags, int32_t stream, std::string_view block);
  void settings(std::span<const Setting> settings);
  void window_update(int32_t stream, uint32_t by);
  void reset(int32_t stream, uint32_t code);
  void goaway(int32_t last, uint32_t code, std::string_view text);

  H2Output output;
};

}  // namespace weir::wire
