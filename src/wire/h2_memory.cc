#include "wire/h2_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/recycled.h"

namespace weir::wire {
namespace {

constexpr size_t kStep = 32, kClasses = 16;  // blocks of 32, 64, … 512 bytes are kept
constexpr size_t kKept = 64;                 // of each size

// In front of what the library gets: the library does not say how large is what it gives back.
struct Header {
  uint64_t size;  // of the block, this included
};

class Blocks {
 public:
  Blocks() = default;
  Blocks(const Blocks&) = delete;
  ~Blocks() {
    open_ = false;
    for (List& list : lists_)
      while (list.count > 0) std::free(list.blocks[--list.count]);
  }

  void* take(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const size_t size = (bytes + sizeof(Header) + kStep - 1) / kStep * kStep;
    List* list = list_of(size);
    void* block = list && list->count > 0 ? list->blocks[--list->count] : std::malloc(size);
    if (!block) return nullptr;
    return new (block) Header{size} + 1;
  }
  void give(void* at) {
    if (!at) return;
    Header* block = static_cast<Header*>(at) - 1;
    List* list = base::kRecycles && open_ ? list_of(block->size) : nullptr;
    if (list && list->count < kKept)
      list->blocks[list->count++] = block;
    else
      std::free(block);
  }
  static size_t room(void* at) { return (static_cast<Header*>(at) - 1)->size - sizeof(Header); }

 private:
  struct List {
    size_t count = 0;
    std::array<void*, kKept> blocks;
  };
  List* list_of(size_t size) { return size <= kStep * kClasses ? &lists_[size / kStep - 1] : nullptr; }

  std::array<List, kClasses> lists_{};
  bool open_ = true;  // the thread has not ended
};

thread_local Blocks blocks_of_thread;

void* take(size_t bytes, void*) { return blocks_of_thread.take(bytes); }
void give(void* at, void*) { blocks_of_thread.give(at); }

void* take_zeroed(size_t n, size_t bytes, void*) {
  size_t all;
  if (__builtin_mul_overflow(n, bytes, &all)) return nullptr;
  void* at = blocks_of_thread.take(all);
  return at ? std::memset(at, 0, all) : nullptr;
}

void* take_more(void* before, size_t bytes, void*) {
  if (before && bytes <= Blocks::room(before)) return before;
  void* at = blocks_of_thread.take(bytes);
  if (!at || !before) return at;
  std::memcpy(at, before, std::min(bytes, Blocks::room(before)));
  blocks_of_thread.give(before);
  return at;
}

}  // namespace

nghttp2_mem* h2_memory() {
  static nghttp2_mem memory{nullptr, take, give, take_zeroed, take_more};
  return &memory;
}

}  // namespace weir::wire
