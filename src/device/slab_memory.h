// SlabMemory: where the memory of a SlabPool's slabs comes from: the system, or one block that was allocated once.
//
// The block may be pinned, which is what makes copies to a device run beside everything else. A pool on a block never
// asks the system for more: when the block is full, take() is null and flow control holds the peers, as with a spent
// budget. There is no pageable fallback.
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

// The heap, and for 2 MiB and more mappings of their own in huge pages.
std::unique_ptr<SlabMemory> system_memory();
// Parts of `block`.
std::unique_ptr<SlabMemory> block_memory(PinnedBlock block);

// `bytes` (a multiple of 2 MiB) of zeroed memory, 2 MiB aligned, asked for in huge pages; null when there is none.
std::byte* map_huge(size_t bytes);
void unmap_huge(std::byte* data, size_t bytes);

}  // namespace weir::device
