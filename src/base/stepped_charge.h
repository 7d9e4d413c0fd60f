// SteppedCharge: a charge that follows a count of small pieces (request heads, details of tokens): counting is an
// addition, the ledger is asked once per 16 KiB. The first 4 KiB (kLeastCharged) are free, so that an ordinary request,
// or a probe of the server's health, needs no room. Any one thread at a time.
#pragma once

#include <cstdint>

#include "base/memory_ledger.h"

namespace weir::base {

class SteppedCharge {
 public:
  // Without a ledger there is always room. `fixed`: bytes that are charged together with the first that are not free.
  SteppedCharge(MemoryLedger* ledger, MemoryKind kind, uint64_t fixed = 0) : ledger_(ledger), fixed_(fixed) {
    if (ledger) charge_ = {*ledger, kind};
  }

  // Counts `bytes` more. False: there is no room for them, and they are not counted.
  bool take(uint64_t bytes) {
    used_ += bytes;
    if (used_ <= covered_ || follow()) return true;
    used_ -= bytes;
    return false;
  }
  // What is given back leaves the ledger late, so that request after request does not ask it each time.
  void give(uint64_t bytes) {
    used_ -= bytes;
    if (covered_ > kLeastCharged && used_ + 2 * kStep <= covered_) (void)follow();
  }
  // Gives back what is left of the last steps, too.
  void rest() {
    if (covered_ > kLeastCharged) (void)follow();
  }
  uint64_t used() const { return used_; }

 private:
  static constexpr uint64_t kStep = 16 << 10;

  bool follow() {
    const bool free = used_ <= kLeastCharged;
    const uint64_t steps = free ? kLeastCharged : (used_ + kStep - 1) / kStep * kStep, before = charge_.bytes();
    if (!charge_.resize(free ? 0 : steps + fixed_)) return false;
    if (ledger_ && charge_.bytes() < before) ledger_->tell_room();
    covered_ = steps;
    return true;
  }

  MemoryLedger* const ledger_;
  const uint64_t fixed_;
  MemoryCharge charge_;
  uint64_t used_ = 0, covered_ = kLeastCharged;
};

}  // namespace weir::base
