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

// The large blocks that a session asks for when it is made, each with its place among the session's pages. A version of
// the library with other sizes has them from the heap. Places but the rings' are used once: what is asked for as zeros
// is not zeros when it comes back, and what is kept in the room for a frame, such as a field of the peer's, is lost
// with the first rest.
struct Place {
  size_t at, least, most;  // bytes
  bool zeroed;             // it is asked for as zeros
  bool again = false;
};
constexpr size_t kTable = 4096;        // 256 places for streams
constexpr size_t kStruct = 3072;       // the session's own struct has 2,928
constexpr size_t kRing = 1024;         // a ring of the fields in a table of HPACK, one for each way
constexpr size_t kLeastFrame = 16384;  // SETTINGS_MAX_FRAME_SIZE at first, and a head
constexpr size_t kPutAway = kTable + kStruct + 2 * kRing;
constexpr size_t kPagesOfSession = 7 * base::PagePool::kPage;
constexpr std::array<Place, 5> kPlaces{{
    {0, kTable, kTable, true},
    {kTable, 2048, kStruct, true},
    {kTable + kStruct, kRing, kRing, false, true},
    {kTable + kStruct + kRing, kRing, kRing, false, true},
    {kPutAway, kLeastFrame, kPagesOfSession - kPutAway, false},
}};
constexpr size_t kMostSessions = 1 << 18;  // of the process; further ones are in the heap: 7 GiB of addresses

base::PagePool& session_pages() {
  static auto& pages = *new base::PagePool(kPagesOfSession, kMostSessions);  // outlives every thread
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
    base::check(i < kPlaces.size(), "a block of a session's pages");
    return i;
  }
  static void* take_place(H2Memory& memory, size_t bytes, bool zeroed) {
    for (size_t i = 0; i < kPlaces.size(); ++i) {
      const Place& place = kPlaces[i];
      if (bytes < place.least || bytes > place.most || place.zeroed != zeroed || memory.taken_[i]) continue;
      std::byte* pages = memory.pages_.take();
      if (!pages) return nullptr;
      memory.taken_.set(i);
      return pages + place.at;
    }
    return nullptr;
  }

  static void* take(size_t bytes, void* user) {
    void* at = bytes > kLargest ? take_place(of(user), bytes, false) : nullptr;
    return at ? at : blocks_of_thread.take(bytes);
  }
  static void* take_zeroed(size_t n, size_t bytes, void* user) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) return nullptr;
    if (void* at = all > kLargest ? take_place(of(user), all, true) : nullptr) return at;
    void* at = blocks_of_thread.take(all);
    return at ? std::memset(at, 0, all) : nullptr;
  }
  static void give(void* at, void* user) {
    if (!at) return;
    H2Memory& memory = of(user);
    if (!memory.pages_.contains(at)) return blocks_of_thread.give(at);
    const size_t place = place_of(memory, at);
    if (kPlaces[place].again) memory.taken_.reset(place);
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
      pages_(session_pages(), kPutAway) {}

void H2Memory::rest() {
  if (std::exchange(used_, false)) pages_.rest();
}

}  // namespace weir::wire
