#include "wire/h2_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

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

// The sizes that the library asks for when a session is made. A version with others has them among the small blocks.
constexpr size_t kPage = 4096;
constexpr size_t kTable = 4096;                                // 256 places for streams
constexpr size_t kLeastFrame = 16384, kMostFrame = 5 * kPage;  // SETTINGS_MAX_FRAME_SIZE at first, and a head
constexpr size_t kPagesOfSession = kTable + kMostFrame;

// The pages of all sessions, taken from the system for many at a time and never unmapped: what nobody uses takes
// addresses, not memory.
class SessionPages {
 public:
  // Zeroed. Null: there is no memory.
  std::byte* take() {
    std::lock_guard lock(mutex_);
    if (free_.empty() && !map_more()) return nullptr;
    auto* pages = free_.back();
    free_.pop_back();
    return pages;
  }
  void give(std::byte* pages) {
    clear(pages);
    std::lock_guard lock(mutex_);
    free_.push_back(pages);  // there was room for it: it came from there
  }
  static void clear(std::byte* pages) { ::madvise(pages, kPagesOfSession, MADV_DONTNEED); }
  static void clear_frame(std::byte* pages) { ::madvise(pages + kTable, kMostFrame, MADV_DONTNEED); }

 private:
  bool map_more() {
    constexpr size_t kMany = 64;
    try {
      free_.reserve(all_ + kMany);
    } catch (const std::bad_alloc&) {
      return false;
    }
    void* at = ::mmap(nullptr, kMany * kPagesOfSession, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    ::madvise(at, kMany * kPagesOfSession, MADV_NOHUGEPAGE);
    all_ += kMany;
    for (size_t i = 0; i < kMany; ++i) free_.push_back(static_cast<std::byte*>(at) + i * kPagesOfSession);
    return true;
  }

  std::mutex mutex_;
  std::vector<std::byte*> free_;
  size_t all_ = 0;
};

SessionPages& session_pages() {
  static auto& pages = *new SessionPages;  // outlives every thread
  return pages;
}

}  // namespace

struct H2Memory::Functions {
  static H2Memory& of(void* user) { return *static_cast<H2Memory*>(user); }
  static bool have_pages(H2Memory& memory) {
    if (!base::kRecycles) return false;
    if (!memory.pages_) memory.pages_ = session_pages().take();
    return memory.pages_ != nullptr;
  }
  static std::byte* frame(H2Memory& memory) { return memory.pages_ + kTable; }
  static bool is_frame(H2Memory& memory, void* at) { return memory.has_frame_ && at == frame(memory); }
  static bool is_table(H2Memory& memory, void* at) { return memory.has_table_ && at == memory.pages_; }

  static void* take(size_t bytes, void* user) {
    H2Memory& memory = of(user);
    if (bytes < kLeastFrame || bytes > kMostFrame || memory.has_frame_ || !have_pages(memory))
      return blocks_of_thread.take(bytes);
    memory.has_frame_ = true;
    return frame(memory);
  }
  static void* take_zeroed(size_t n, size_t bytes, void* user) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all)) return nullptr;
    H2Memory& memory = of(user);
    if (all == kTable && !std::exchange(memory.had_table_, true) && have_pages(memory)) {
      memory.has_table_ = true;
      return memory.pages_;
    }
    void* at = blocks_of_thread.take(all);
    return at ? std::memset(at, 0, all) : nullptr;
  }
  static void give(void* at, void* user) {
    if (!at) return;
    H2Memory& memory = of(user);
    if (is_frame(memory, at))
      memory.has_frame_ = false;
    else if (is_table(memory, at))
      memory.has_table_ = false;
    else
      blocks_of_thread.give(at);
  }
  static void* take_more(void* before, size_t bytes, void* user) {
    if (!before) return take(bytes, user);
    const bool frame = is_frame(of(user), before), table = is_table(of(user), before);
    if (!frame && !table && !is_small(before) && bytes > kLargest) return std::realloc(before, bytes);
    const size_t room = frame ? kMostFrame : table ? kTable : is_small(before) ? room_of(before) : bytes;
    if (bytes <= room) return before;
    void* at = blocks_of_thread.take(bytes);
    if (!at) return nullptr;
    std::memcpy(at, before, room);
    give(before, user);
    return at;
  }
};

H2Memory::H2Memory()
    : functions_{this, Functions::take, Functions::give, Functions::take_zeroed, Functions::take_more} {}

H2Memory::~H2Memory() {
  if (pages_) session_pages().give(pages_);
}

void H2Memory::rest() {
  if (!std::exchange(awake_, false) || !pages_) return;
  static constexpr std::array<std::byte, kTable> kZeros{};
  if (std::memcmp(pages_, kZeros.data(), kTable) == 0)
    SessionPages::clear(pages_);
  else
    SessionPages::clear_frame(pages_);
}

}  // namespace weir::wire
