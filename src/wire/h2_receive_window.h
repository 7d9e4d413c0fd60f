// H2ReceiveWindow: how many bytes of DATA a peer may still send, to one stream or to the whole connection (RFC 9113
// §6.9). Pure arithmetic: what it says is to be told the peer is the caller's to send, as WINDOW_UPDATE.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "wire/limits.h"

namespace weir::wire {

inline constexpr int64_t kH2FirstWindow = 65'535;
inline constexpr int64_t kH2LargestWindow = 0x7fffffff;

// The first window of a stream, within what the RFC allows whatever was configured: a client refuses others.
inline int64_t first_receive_window(const Limits& limits) {
  return std::clamp<int64_t>(limits.stream_window, 1, kH2LargestWindow);
}

class H2ReceiveWindow {
 public:
  H2ReceiveWindow() = default;
  explicit H2ReceiveWindow(int64_t size) : size_(size), left_(size) {}

  // `n` bytes have come. False: they are more than the peer may send.
  bool take(size_t n) {
    left_ -= int64_t(n), held_ += int64_t(n);
    return left_ >= 0;
  }
  // `n` of those that have come are dealt with. Returns by how much the peer's window is to grow now: by half of it or
  // more, else by nothing.
  uint32_t give(size_t n) {
    held_ -= int64_t(n);
    return 2 * missing() >= size_ ? grow(missing()) : 0;
  }
  // The same, but the peer's window stays as it is until give() or resize() is called.
  void keep(size_t n) { held_ -= int64_t(n); }
  // Returns by how much the peer's window is to grow now. One that becomes smaller does so as bytes come.
  uint32_t resize(int64_t size) {
    const int64_t by = size - std::exchange(size_, size);
    return grow(std::min(by, missing()));
  }
  // The peer knows of the change by a SETTINGS frame. Returns as the others do.
  uint32_t shift(int64_t by) {
    size_ += by, left_ += by;
    return give(0);
  }

 private:
  int64_t missing() const { return size_ - held_ - left_; }
  uint32_t grow(int64_t by) {
    by = std::clamp<int64_t>(by, 0, kH2LargestWindow);
    left_ += by;
    return uint32_t(by);
  }

  int64_t size_ = kH2FirstWindow;  // bytes of the peer's that may be on their way or held here
  int64_t left_ =
      kH2FirstWindow;  // that the peer may still send; below 0 after a SETTINGS frame that makes windows smaller
  int64_t held_ = 0;   // that have come and are not dealt with
};

}  // namespace weir::wire
