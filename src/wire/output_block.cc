#include "wire/output_block.h"

#include <utility>

namespace weir::wire {
namespace {

// The block that is written and given back in each request of a thread: with it, an answer allocates none.
struct Spare {
  base::Slab* block = nullptr;

  ~Spare() {
    if (block) base::drop(block);
  }
};
thread_local Spare spare;

}  // namespace

base::Slab* take_output_block(size_t bytes) {
  if (spare.block && spare.block->capacity == bytes) return std::exchange(spare.block, nullptr);
  return base::heap_slab(bytes);
}

void give_output_block(base::Slab* block) {
  if (!block) return;
  const bool ours = block->refs.load(std::memory_order_acquire) == 1;  // nobody else refers to it
  if (ours) std::swap(block, spare.block);
  if (block) base::drop(block);
}

}  // namespace weir::wire
