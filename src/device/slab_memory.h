// SlabMemory: where the memory of a SlabPool's slabs comes from: the system, or one block that was allocated once.
//
// The block may be pinned: only from pinned memory can a device copy while the host does something else. A pool on a
// block never asks the system for more. When the block is full, take() returns null, and flow control holds the peers
// as it does when the budget is spent; pageable memory never takes its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::device {

class PinnedBlock;

class SlabMemory {
 public:
  virtual ~SlabMemory() = default;
  // `align` is a power of two. Null when there is no memory. Any thread.
  virtual std::byte* take(size_t bytes, size_t align) = 0;
  virtual void give(std::byte* data, size_t bytes, size_t align) = 0;
};

// Memory of the heap; from 2 MiB on each piece is a mapping of its own in huge pages.
std::unique_ptr<SlabMemory> system_memory();
// Parts of `block`.
std::unique_ptr<SlabMemory> block_memory(PinnedBlock block);

// Maps `bytes`, a multiple of 2 MiB: zeroed, aligned to 2 MiB, in huge pages where the system has them. Null when there
// is no memory.
std::byte* map_huge(size_t bytes);
void unmap_huge(std::byte* data, size_t bytes);

}  // namespace weir::device
