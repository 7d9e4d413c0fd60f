// Invariants of the bytes that HTTP/2 sends, for fuzz targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"

namespace weir {

// Checks that a stream of bytes is whole frames, and nothing after a GOAWAY that says why.
class H2Frames {
 public:
  void take(std::string_view bytes) {
    rest_.append(bytes);
    while (rest_.size() >= 9) {
      auto at = [this](size_t i) { return size_t(uint8_t(rest_[i])); };
      size_t n = at(0) << 16 | at(1) << 8 | at(2);
      if (rest_.size() < 9 + n) return;
      require(!condemned_, "a frame after the last GOAWAY");
      require(at(3) <= 9, "an unknown frame type");
      require(n <= 16384 || at(3) == 0, "a frame beyond the peer's limit");
      condemned_ = at(3) == 7 && (at(13) | at(14) | at(15) | at(16)) != 0;
      rest_.erase(0, 9 + n);
    }
  }
  bool whole() const { return rest_.empty(); }

 private:
  std::string rest_;
  bool condemned_ = false;
};

}  // namespace weir
