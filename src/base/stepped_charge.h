// SteppedCharge: charges the memory ledger for many small pieces (request heads, details of tokens). The charge grows
// in steps of 16 KiB, so that most pieces cost an addition and do not ask the ledger. The first 4 KiB (kLeastCharged)
// are free: an ordinary request, or a probe of the server's health, needs no room. Any one thread at a time.
#pragma once

#include <cstdint>

#include "base/client.h"
#include "base/memory_ledger.h"

namespace weir::base {

class SteppedCharge {
 public:
  // The client whose share of the memory is used; it outlives this. Null: no share is used.
  struct Owner {
    Client* client = nullptr;
    ShareRule share{.percent = 100};
  };
  // Without a ledger there is always room. `fixed`: bytes that are charged together with the first that are not free.
  SteppedCharge(MemoryLedger* ledger, MemoryKind kind, uint64_t fixed = 0) : SteppedCharge(ledger, kind, fixed, {}) {}
  SteppedCharge(MemoryLedger* ledger, MemoryKind kind, uint64_t fixed, Owner owner)
      : ledger_(ledger), fixed_(fixed), owner_(owner) {
    if (ledger) charge_ = {*ledger, kind};
  }
  ~SteppedCharge() {
    if (owner_.client) owner_.client->take_off(Held::kSlabBytes, charge_.bytes());
  }
  SteppedCharge(const SteppedCharge&) = delete;

  // Counts `bytes` more. False: there is no room for them, or the owner has its share; they are not counted.
  bool take(uint64_t bytes) {
    used_ += bytes;
    if (used_ <= covered_ || follow()) return true;
    used_ -= bytes;
    return false;
  }
  // Counts `bytes` less. The charge shrinks when two steps of it are unused, so that a connection that takes and gives
  // for request after request does not ask the ledger each time.
  void give(uint64_t bytes) {
    used_ -= bytes;
    if (covered_ > kLeastCharged && used_ + 2 * kStep <= covered_) (void)follow();
  }
  // Shrinks the charge to the steps that are used.
  void trim() {
    if (covered_ > kLeastCharged) (void)follow();
  }
  uint64_t used() const { return used_; }

 private:
  static constexpr uint64_t kStep = 16 << 10;

  // Makes the charge as large as the count needs. False: there is no room, and the charge stays as it was.
  bool follow() {
    const bool free = used_ <= kLeastCharged;
    const uint64_t steps = free ? kLeastCharged : (used_ + kStep - 1) / kStep * kStep;
    const uint64_t before = charge_.bytes(), after = free ? 0 : steps + fixed_;
    if (after > before && !may_have(after - before)) return false;
    if (!charge_.resize(after)) return false;
    if (owner_.client && after > before) owner_.client->add(Held::kSlabBytes, after - before);
    if (owner_.client && after < before) owner_.client->take_off(Held::kSlabBytes, before - after);
    if (ledger_ && after < before) ledger_->notify_room();
    covered_ = steps;
    return true;
  }
  bool may_have(uint64_t more) const {
    return !ledger_ || !owner_.client ||
           owner_.client->may_have(Held::kSlabBytes, more, owner_.share, ledger_->held(), ledger_->budget());
  }

  MemoryLedger* const ledger_;
  const uint64_t fixed_;
  const Owner owner_;
  MemoryCharge charge_;
  uint64_t used_ = 0, covered_ = kLeastCharged;
};

}  // namespace weir::base
