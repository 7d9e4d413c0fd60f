// SlabPool: slabs from one budget, in size classes, recycled. Their memory comes from the system, or from one
// block that was pinned once (device/slab_memory.h): then a request body is received where a device can copy it from.
//
// The pool charges the memory that it takes to a ledger (base/memory_ledger.h), whose slab limit is its budget: so
// slabs and all else that peers cause have one total. Idle slabs are charged, too, and given up when anything else
// lacks room.
//
// Data is 64-byte aligned (2 MiB for slabs of 2 MiB and more, which ask for huge pages). When the budget is spent
// take() returns null: codecs then stop reading from their peers until something comes back; nothing fails. It also
// does where the system has less memory than the budget says; once all that is out would not be enough, hopeless() says
// so. A slab larger than the whole budget never comes, so body limits must stay below it.
// Any thread; a slab may be dropped on another thread than it was taken on, and goes back to the list that it came
// from. A bounded number of idle slabs is kept for reuse, the rest goes back to the operating system: a request of many
// MiB that comes after another finds memory whose pages are there, which the system would take longer to make than the
// request to come. Parts take a quarter of the budget at most, or are alone; memory is scarce when half of it is out,
// or half of what parts may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "base/memory_ledger.h"
#include "device/slab_memory.h"

namespace weir::device {

class SlabPool final : public base::SlabSource {
 public:
  // With a ledger of its own.
  explicit SlabPool(uint64_t budget_bytes);
  // On a fixed block slabs come only out of it, also when the budget is larger.
  SlabPool(uint64_t budget_bytes, std::unique_ptr<SlabMemory> memory);
  // `ledger` has no other pool, and is not used after its end by anybody but this pool's slabs that are still out.
  SlabPool(base::MemoryLedger& ledger, std::unique_ptr<SlabMemory> memory);
  // Slabs that are still out stay good; what they need lives on with them. Nobody takes or drops at the same time.
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  base::Slab* take(size_t bytes) override;
  base::Slab* take_part(size_t bytes) override;
  // Asks the system once more, and not by what it said to take(): memory may have come since.
  bool hopeless(size_t bytes) const override;
  bool scarce() const override;
  bool scarce_for_wholes() const override;
  void charge(base::Slab* slab, base::Client& client) override;
  base::MemoryLedger* ledger() override;

  uint64_t budget() const;
  uint64_t used() const;  // bytes handed out now, as charged: capacity, not what was asked for
  uint64_t idle() const;  // bytes kept for reuse; beside used(), within the budget
  // Gives the system back slabs of 2 MiB and more that were idle at the last call, too: 128 MiB, or one, so that no
  // shard unmaps for long. As often as such a slab may rest.
  void give_back_rested();
  // Called (from the freeing thread) when a slab comes back after take() had returned null since the last call. Each
  // function given is called; they must outlive the pool's use.
  void on_room(std::function<void()> wake);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::device
