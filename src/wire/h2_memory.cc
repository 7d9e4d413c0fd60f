#include "wire/h2_memory.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/recycled.h"

namespace weir::wire {
namespace {

constexpr size_t kStep = 32, kClasses = 16;  // blocks of 32, 64, … 512 bytes are kept
constexpr size_t kKept = 64;                 // of each size

// In front of small blocks: the library does not say how large is what it gives back. Larger ones are malloc()'s own,
// at its alignment, by which they are told apart: behind a header nothing is so aligned.
struct Header {
  uint64_t size;  // of the block, this included
};
constexpr size_t kLargest = kStep * kClasses - sizeof(Header);

bool is_small(const void* at) { return reinterpret_cast<uintptr_t>(at) % alignof(std::max_align_t) == sizeof(Header); }
size_t room_of(void* at) { return (static_cast<Header*>(at) - 1)->size - sizeof(Header); }

thread_local bool thread_ended = false;

// The small blocks of a thread.
class Blocks {
 public:
  Blocks() = default;
  Blocks(const Blocks&) = delete;
  ~Blocks() {
    thread_ended = true;
    for (List& list : lists_)
      while (list.count > 0) std::free(list.blocks[--list.count]);
  }

  void* take(size_t bytes) {
    if (bytes > kLargest) return std::malloc(bytes);
    const size_t size = (bytes + sizeof(Header) + kStep - 1) / kStep * kStep;
    List& list = lists_[size / kStep - 1];
    void* block = !thread_ended && list.count > 0 ? list.blocks[--list.count] : std::malloc(size);
    return block ? new (block) Header{size} + 1 : nullptr;
  }
  void give(void* at) {
    if (!is_small(at)) return std::free(at);
    Header* block = static_cast<Header*>(at) - 1;
    List& list = lists_[block->size / kStep - 1];
    if (base::kRecycles && !thread_ended && list.count < kKept)
      list.blocks[list.count++] = block;
    else
      std::free(block);
  }

 private:
  struct List {
    size_t count = 0;
    std::array<void*, kKept> blocks;
  };

  std::array<List, kClasses> lists_{};
};

thread_local Blocks blocks_of_thread;

// The large blocks that a connection's coders ask for when they are made, each with its place in its page. A version of
// the library with other sizes has them from the heap.
struct Place {
  size_t at, least, most;  // bytes
};
constexpr size_t kRing = 1024;     // of the fields in a table, one for each way
constexpr size_t kEncoder = 1536;  // it has 1,120, its index of the table included
constexpr size_t kDecoder = 512, kLeastDecoder = 192;
constexpr std::array<Place, 4> kPlaces{{
    {0, kRing, kRing},
    {kRing, kRing, kRing},
    {2 * kRing, kRing + 1, kEncoder},
    {2 * kRing + kEncoder, kLeastDecoder, kDecoder},
}};
constexpr size_t kMostConnections = 1 << 18;  // of the process; further ones are in the heap: 1 GiB of addresses

base::PagePool& pages_of_coders() {
  static auto& pages = *new base::PagePool(base::PagePool::kPage, kMostConnections);  // outlives every thread
  return pages;
}

}  // namespace

struct H2Memory::Functions {
  static H2Memory& of(void* user) { return *static_cast<H2Memory*>(user); }
  // The place that `at` is.
  static size_t place_of(const H2Memory& memory, void* at) {
    const auto offset = size_t(static_cast<std::byte*>(at) - memory.pages_.data());
    size_t i = 0;
    while (i < kPlaces.size() && kPlaces[i].at != offset) ++i;
    base::check(i < kPlaces.size(), "a block of the page");
    return i;
  }
  static void* take_place(H2Memory& memory, size_t bytes) {
    for (size_t i = 0; i < kPlaces.size(); ++i) {
      const Place& place = kPlaces[i];
      if (bytes < place.least || bytes > place.most || memory.taken_[i]) continue;
      std::byte* pages = memory.pages_.take();
      if (!pages) return nullptr;
      memory.taken_.set(i);
      return pages + place.at;
    }
    return nullptr;
  }

  static void* take(size_t bytes, void* user) {
    void* at = bytes >= kLeastDecoder ? take_place(of(user), bytes) : nullptr;
    return at ? at : blocks_of_thread.take(bytes);
  }
  static void* take_zeroed(size_t n, size_t bytes, void* user) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) return nullptr;
    void* at = take(all, user);
    return at ? std::memset(at, 0, all) : nullptr;
  }
  static void give(void* at, void* user) {
    if (!at) return;
    H2Memory& memory = of(user);
    if (!memory.pages_.contains(at)) return blocks_of_thread.give(at);
    memory.taken_.reset(place_of(memory, at));
  }
  static void* take_more(void* before, size_t bytes, void* user) {
    if (!before) return take(bytes, user);
    const bool paged = of(user).pages_.contains(before), small = !paged && is_small(before);
    if (!paged && !small && bytes > kLargest) return std::realloc(before, bytes);
    const size_t room = paged ? kPlaces[place_of(of(user), before)].most : small ? room_of(before) : bytes;
    if (bytes <= room) return before;
    void* at = blocks_of_thread.take(bytes);
    if (!at) return nullptr;
    std::memcpy(at, before, room);
    give(before, user);
    return at;
  }
};

H2Memory::H2Memory()
    : functions_{this, Functions::take, Functions::give, Functions::take_zeroed, Functions::take_more},
      pages_(pages_of_coders(), base::PagePool::kPage) {}

void H2Memory::rest() {
  if (std::exchange(used_, false)) pages_.rest();
}

}  // namespace weir::wire
