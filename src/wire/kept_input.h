// KeptInput: bytes that were read and cannot be used yet: a head without its end, a chunk's header, requests beyond the
// pipeline.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/release.h"
#include "base/stepped_charge.h"

namespace weir::wire {

class KeptInput {
 public:
  size_t waiting() const { return kept_.size() - at_; }
  // All that waits, `fresh` behind it; stable until used(). Bytes of `fresh` are copied only behind others.
  std::string_view join(std::string_view fresh) {
    joined_ = waiting() > 0;
    if (joined_) kept_.append(fresh);
    return joined_ ? std::string_view(kept_).substr(at_) : fresh;
  }
  // So many bytes of what join() gave have been used; the rest is kept.
  void used(std::string_view all, size_t n);
  // Forgets what waits; keeps a small capacity.
  void drop();
  void release() {
    base::release(kept_);
    at_ = 0;
  }
  // Charges the memory to `heads`. False: there is no room, and what waited is gone.
  bool charge(base::SteppedCharge& heads);

 private:
  std::string kept_;
  uint64_t charged_ = 0;  // of kept_
  uint32_t at_ = 0;       // of kept_ these have been used
  bool joined_ = false;
};

}  // namespace weir::wire
