#include "wire/output_block.h"

#include <array>
#include <cstddef>

namespace weir::wire {
namespace {

// Blocks that were written and given back, for the next answers: as many as the connections of one turn hold at a time,
// so that these allocate none.
constexpr size_t kBlocksKept = 32;

thread_local bool thread_has_ended = false;

struct Spare {
  std::array<base::Slab*, kBlocksKept> blocks{};
  size_t count = 0;

  ~Spare() {
    thread_has_ended = true;
    while (count > 0) base::drop(blocks[--count]);
  }
};
// HTTP/1 and 2 take blocks of these sizes, but for single pieces that are larger.
constexpr size_t kSmallBlock = 4096, kLargeBlock = 16384;
thread_local Spare small_blocks, large_blocks;

// For blocks of so many bytes; null: they are not kept.
Spare* spare_of(size_t bytes) {
  if (thread_has_ended) return nullptr;
  return bytes == kSmallBlock ? &small_blocks : bytes == kLargeBlock ? &large_blocks : nullptr;
}

}  // namespace

base::Slab* take_output_block(size_t bytes) {
  Spare* spare = spare_of(bytes);
  return spare && spare->count > 0 ? spare->blocks[--spare->count] : base::heap_slab(bytes);
}

void give_output_block(base::Slab* block) {
  if (!block) return;
  const bool ours = block->refs.load(std::memory_order_acquire) == 1;  // nobody else refers to it
  Spare* spare = ours ? spare_of(block->capacity) : nullptr;
  if (spare && spare->count < kBlocksKept)
    spare->blocks[spare->count++] = block;
  else
    base::drop(block);
}

}  // namespace weir::wire
