// Slabs that charge a ledger and can be told to be spent.
#pragma once

#include "base/memory_ledger.h"

namespace weir::support {

class CountedSlabs final : public base::SlabSource {
 public:
  explicit CountedSlabs(uint64_t budget) : memory(budget, 0, {50, 60, 70, 80}) {}
  base::Slab* take(size_t bytes) override { return empty ? nullptr : base::heap_slab(bytes); }
  base::Slab* take_part(size_t bytes) override { return take(bytes); }
  bool scarce() const override { return is_scarce; }
  base::MemoryLedger* ledger() override { return &memory; }

  base::MemoryLedger memory;
  bool empty = false, is_scarce = false;
};

}  // namespace weir::support
