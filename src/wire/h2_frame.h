// The frames of HTTP/2 (RFC 9113 §4 and §6) and its error codes (§7).
#pragma once

#include <cstdint>

namespace weir::wire {

// RFC 9113 §7.
enum class H2Error : uint32_t {
  kNone = 0,
  kProtocol = 1,
  kInternal = 2,
  kSettingsTimeout = 4,
  kStreamClosed = 5,
  kRefusedStream = 7,
  kCancel = 8,
  kEnhanceYourCalm = 11,
};

// RFC 9113 §4.1 and §6.
enum class H2Frame : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

// The nine octets before every frame, and two facts that the beginning of its payload tells.
struct FrameHead {
  uint32_t length = 0;
  H2Frame type = H2Frame::kData;
  uint8_t flags = 0;
  int32_t stream = 0;
  bool only_padding = false;  // DATA whose payload is all padding
  int32_t depends_on = -1;    // PRIORITY: the stream that it names

  bool ack() const { return flags & 1; }         // SETTINGS, PING
  bool end_stream() const { return flags & 1; }  // DATA, HEADERS
  bool padded() const { return flags & 8; }      // DATA, HEADERS
};

}  // namespace weir::wire
