// SlabPool: slabs from one budget, in size classes, recycled. The host version; the CUDA version pins the same memory.
//
// Blocks are 64-byte aligned (2 MiB for large ones, so that they can be huge pages). When the budget is spent take()
// returns null: codecs then stop reading from their peers until something comes back; nothing fails. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"

namespace weir::device {

class SlabPool final : public base::SlabSource {
 public:
  explicit SlabPool(uint64_t budget_bytes);
  ~SlabPool();

  base::Slab* take(size_t bytes) override;

  uint64_t budget() const;
  uint64_t used() const;  // bytes handed out now
  // Called (from the freeing thread) when a slab comes back after take() had returned null since the last call.
  void on_room(std::function<void()> wake);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::device
