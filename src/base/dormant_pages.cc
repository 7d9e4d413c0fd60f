// Packed content, one entry after another for each run of words (of 8 bytes) that are not zero:
//
//   entry = zeros words *word     zeros: words that are zero before these; words: how many follow; 16 bits each, as
//                                 the machine has them
//   word  = mask *byte            bit i of mask: byte i of the word is not zero, and follows
#include "base/dormant_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/recycled.h"

namespace weir::base {
namespace {

constexpr size_t kOpenAtOnce = 64;  // slots
// Where the sanitizer looks at addresses, so does the system at those of pages that are asleep.
constexpr bool kGuarded = !kRecycles;

using Word = uint64_t;

Word word_at(const std::byte* pages, size_t i) {
  Word word;
  std::memcpy(&word, pages + i * sizeof word, sizeof word);
  return word;
}

// Where packed bytes go, or how many they are.
class PackedBytes {
 public:
  explicit PackedBytes(std::byte* to) : to_(to) {}
  void put(const void* from, size_t n) {
    if (to_) std::memcpy(to_ + size_, from, n);
    size_ += n;
  }
  size_t size() const { return size_; }

 private:
  std::byte* const to_;  // null: they are counted alone
  size_t size_ = 0;
};

void pack_word(Word word, PackedBytes& out) {
  std::byte mask{}, parts[1 + sizeof word];
  size_t n = 0;
  for (size_t i = 0; i < sizeof word; ++i) {
    const auto part = std::byte(word >> (8 * i));
    if (part == std::byte{}) continue;
    mask |= std::byte(1u << i);
    parts[++n] = part;
  }
  parts[0] = mask;
  out.put(parts, 1 + n);
}

size_t pack(const std::byte* pages, size_t bytes, std::byte* to) {
  PackedBytes out(to);
  const size_t all = bytes / sizeof(Word);
  for (size_t at = 0; at < all;) {
    const size_t begin = at;
    while (at < all && word_at(pages, at) == 0) ++at;
    const size_t first = at;
    while (at < all && word_at(pages, at) != 0) ++at;
    if (at == first) break;
    const uint16_t run[]{uint16_t(first - begin), uint16_t(at - first)};
    out.put(run, sizeof run);
    for (size_t i = first; i < at; ++i) pack_word(word_at(pages, i), out);
  }
  return out.size();
}

const std::byte* unpack_word(const std::byte* from, std::byte* to) {
  const auto mask = std::to_integer<unsigned>(*from++);
  for (size_t i = 0; i < sizeof(Word); ++i)
    if (mask >> i & 1) to[i] = *from++;
  return from;
}

// That a pool may reserve: what it takes of a limit, models and slabs cannot have.
size_t most_addresses() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur / 64;
}

bool discard(std::byte* at, size_t bytes) { return ::madvise(at, bytes, MADV_DONTNEED) == 0; }
// Where there are as many mappings as a process may have, pages stay readable.
void forbid(std::byte* at, size_t bytes) {
  if (kGuarded) (void)::mprotect(at, bytes, PROT_NONE);
}
void allow(std::byte* at, size_t bytes) {
  if (kGuarded) check(::mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect() of pages");
}

}  // namespace

PagePool::~PagePool() {
  if (free_.size() == opened_ && begin_ != kNowhere) ::munmap(reinterpret_cast<void*>(begin_.load()), reserved_);
}

std::byte* PagePool::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty() && !open_more()) return nullptr;
  const size_t index = free_.back();
  free_.pop_back();
  return reinterpret_cast<std::byte*>(begin_.load(std::memory_order_relaxed)) + index * bytes_;
}

void PagePool::give(std::byte* slot) {
  if (!discard(slot, bytes_)) std::memset(slot, 0, bytes_);
  std::lock_guard lock(mutex_);
  free_.push_back(uint32_t((reinterpret_cast<uintptr_t>(slot) - begin_) / bytes_));
}

// Addresses alone: what may not be written is not counted as memory.
bool PagePool::reserve() {
  if (begin_ != kNowhere) return true;
  if (std::exchange(refused_, true)) return false;  // until it is known that they are there
  const size_t bytes = std::min<size_t>(most_, most_addresses() / bytes_) * bytes_;
  if (bytes == 0) return false;
  void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  ::madvise(at, bytes, MADV_NOHUGEPAGE);
  reserved_ = bytes, refused_ = false;
  begin_ = reinterpret_cast<uintptr_t>(at);
  return true;
}

bool PagePool::open_more() {
  if (!reserve()) return false;
  const size_t more = std::min(kOpenAtOnce, reserved_ / bytes_ - opened_);
  if (more == 0) return false;
  try {
    if (free_.capacity() < opened_ + more) free_.reserve(std::max(opened_ + more, 2 * opened_));
  } catch (const std::bad_alloc&) {
    return false;
  }
  void* first = reinterpret_cast<void*>(begin_ + opened_ * bytes_);
  if (::mprotect(first, more * bytes_, PROT_READ | PROT_WRITE) != 0) return false;
  for (size_t i = more; i > 0; --i) free_.push_back(uint32_t(opened_ + i - 1));
  opened_ += more;
  return true;
}

DormantPages::DormantPages(PagePool& pool, size_t kept) : pool_(pool), kept_(kept) {
  check(kept % sizeof(Word) == 0 && kept / sizeof(Word) <= UINT16_MAX && kept <= pool.bytes(), "pages that are kept");
}

DormantPages::~DormantPages() {
  if (!pages_) return;
  if (asleep()) {
    drop_packed();
    allow(pages_, pool_.bytes());
  }
  pool_.give(pages_);
}

std::byte* DormantPages::take() {
  wake();
  if (!pages_) pages_ = pool_.take();
  return pages_;
}

bool DormantPages::rest() {
  if (!pages_ || asleep()) return asleep();
  const size_t tail = (kept_ + PagePool::kPage - 1) / PagePool::kPage * PagePool::kPage;
  const size_t size = pack(pages_, kept_, nullptr);
  if (size <= kept_ / 2) packed_.reset(new (std::nothrow) std::byte[size]);
  if (packed_) {
    packed_size_ = pack(pages_, kept_, packed_.get());
    if (discard(pages_, pool_.bytes())) {
      forbid(pages_, pool_.bytes());
      return true;
    }
    drop_packed();
  }
  if (tail < pool_.bytes()) discard(pages_ + tail, pool_.bytes() - tail);
  return false;
}

void DormantPages::unpack() {
  allow(pages_, pool_.bytes());
  const std::byte* from = packed_.get();
  const std::byte* const end = from + packed_size_;
  std::byte* to = pages_;
  while (from < end) {
    uint16_t run[2];
    std::memcpy(run, from, sizeof run);
    from += sizeof run;
    to += run[0] * sizeof(Word);
    for (uint16_t i = 0; i < run[1]; ++i, to += sizeof(Word)) from = unpack_word(from, to);
  }
  drop_packed();
}

// Keys may be in it.
void DormantPages::drop_packed() {
  ::explicit_bzero(packed_.get(), packed_size_);
  packed_.reset();
  packed_size_ = 0;
}

}  // namespace weir::base
