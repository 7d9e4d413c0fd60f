#include "wire/h2_settings.h"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::wire {
namespace {

uint32_t number_at(std::string_view from) {
  auto at = [&](size_t i) { return uint32_t(uint8_t(from[i])); };
  return at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
}

}  // namespace

uint32_t largest_frame_taken(const Limits& limits) { return std::clamp(limits.max_frame, 1u << 14, (1u << 24) - 1); }

void H2Settings::send_ours() {
  const Limits& limits = connection_.limits;
  const std::array<H2FrameWriter::Setting, 6> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, uint32_t(first_receive_window(limits))},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, largest_frame_taken(limits)},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.header_bytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
      {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
  }};
  connection_.frames.settings(settings);
}

void H2Settings::acknowledged() {
  if (std::exchange(connection_.settings_taken, true))
    return connection_.fault(NGHTTP2_PROTOCOL_ERROR, "SETTINGS acknowledged that were not sent");
  const int64_t by = first_receive_window(connection_.limits) - kH2FirstWindow;
  connection_.open.each([&](int32_t stream, H2Exchange* x) {
    if (const uint32_t more = x->flow.receive.shift(by); !x->flow.whole) connection_.widen(stream, more);
  });
}

// Blocks that are known are not told of a change of the encoder's table. All windows change by the last of several
// values.
void H2Settings::received(std::string_view payload) {
  connection_.blocks.forget();
  first_window_ = connection_.first_window;
  for (; !payload.empty(); payload.remove_prefix(kEntry)) {
    const uint32_t id = uint32_t(uint8_t(payload[0])) << 8 | uint8_t(payload[1]);
    if (!set(id, number_at(payload.substr(2)))) return;
  }
  if (!sender_.set_first_window(first_window_))
    return connection_.fault(NGHTTP2_FLOW_CONTROL_ERROR, "a stream's window beyond 2^31-1");
  if (no_priorities_ == UINT32_MAX) no_priorities_ = 0;  // RFC 9218 §2.1: the first SETTINGS frame says it for good
  connection_.send(H2Frame::kSettings, NGHTTP2_FLAG_ACK, 0, {});
}

// False: the value is none that the setting can have.
bool H2Settings::set(uint32_t id, uint32_t value) {
  auto check = [&](bool good, nghttp2_error_code code = NGHTTP2_PROTOCOL_ERROR) {
    if (!good) connection_.fault(code, "a setting with a value that it cannot have");
    return good;
  };
  switch (id) {
    case NGHTTP2_SETTINGS_HEADER_TABLE_SIZE:
      return check(connection_.fields.resize_table(value), NGHTTP2_INTERNAL_ERROR);
    case NGHTTP2_SETTINGS_ENABLE_PUSH:
    case NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL: return check(value <= 1);
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
      first_window_ = value;
      return check(value <= kH2LargestWindow, NGHTTP2_FLOW_CONTROL_ERROR);
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE:
      if (!check(value >= 1 << 14 && value < 1 << 24)) return false;
      connection_.largest_frame = value;
      return true;
    case NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES: {
      const uint32_t before = std::exchange(no_priorities_, value);
      return check(value <= 1 && (before == UINT32_MAX || before == value));
    }
    default: return true;
  }
}

}  // namespace weir::wire
