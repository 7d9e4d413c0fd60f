// GatheredAnswer: charges the memory ledger for an answer in one piece: its parts while they grow, and once more for
// the text that is written of them. The shard's thread.
#pragma once

#include <cstdint>
#include <utility>

#include "base/stepped_charge.h"

namespace weir::wire {

class GatheredAnswer {
 public:
  // Without a ledger there is always room.
  explicit GatheredAnswer(base::MemoryLedger* ledger) : charge_(ledger, base::MemoryKind::kAnswers) {}

  // A part of which `counted` bytes are charged holds `bytes` now; `counted` follows, and never shrinks. False: there
  // is no room, and nothing has changed; the answer is wire::no_room_for_answer().
  bool grow(uint64_t& counted, uint64_t bytes) {
    if (bytes <= counted) return true;
    if (!charge_.take(bytes - counted)) return false;
    counted = bytes;
    return true;
  }
  // Before all parts are written into one text, which is about as long as they are. False: there is no room.
  bool charge_text() {
    text_ = charge_.used();
    if (charge_.take(text_)) return true;
    text_ = 0;
    return false;
  }
  // The parts are gone, and the text is there still.
  void release_parts() { charge_.give(charge_.used() - text_); }
  // A part of which `counted` bytes are charged is gone.
  void drop(uint64_t& counted) { charge_.give(std::exchange(counted, 0)); }
  // The parts are gone, and the text belongs to the Exchange, which charges it.
  void release() { charge_.give(charge_.used()); }
  uint64_t used() const { return charge_.used(); }

 private:
  uint64_t text_ = 0;  // bytes of `charge_`
  base::SteppedCharge charge_;
};

}  // namespace weir::wire
