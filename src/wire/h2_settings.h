// H2Settings: the SETTINGS frames of one HTTP/2 connection (RFC 9113 §6.5): ours, and what a client's change.
#pragma once

#include <cstdint>
#include <string_view>

#include "wire/h2_connection.h"
#include "wire/h2_sender.h"

namespace weir::wire {

// The largest frame that we take, within what the RFC allows whatever was configured: a client refuses others.
uint32_t largest_frame_taken(const Limits& limits);

class H2Settings {
 public:
  static constexpr size_t kEntry = 6;    // bytes
  static constexpr uint32_t kMost = 32;  // entries of one frame

  H2Settings(H2Connection& connection, H2Sender& sender) : connection_(connection), sender_(sender) {}

  void send_ours();
  // The client has taken ours.
  void acknowledged();
  // A frame of the client's, of whole entries.
  void received(std::string_view payload);

 private:
  bool set(uint32_t id, uint32_t value);

  H2Connection& connection_;
  H2Sender& sender_;
  uint32_t no_priorities_ = UINT32_MAX;  // UINT32_MAX: not said
  int64_t first_window_ = 0;             // that the present frame asks for
};

}  // namespace weir::wire
