// operator new over mimalloc: throws std::bad_alloc where there is no memory.
//
// Debian's libmimalloc is compiled as C. It has operators of its own, which cannot throw: they end the process by
// abort() and without a word. These stand before them, because the loader looks at the program first. What is taken
// here goes back by mimalloc's operator delete, which is its free().
#include <cstddef>
#include <cstdlib>
#include <new>

#include "app/reserve.h"
#include "app/shortage.h"

namespace {

// A small allocation keeps the process going: a wake-up, an answer, a line of the log. It may use up the reserve;
// a large one is made for a client, and is refused.
constexpr std::size_t kSmallAllocation = 64 << 10;

template <class Take>
void* take_or_throw(std::size_t bytes, Take from_allocator) {
  void* memory = from_allocator();
  if (!memory && bytes <= kSmallAllocation) {
    while (!memory && weir::app::use_reserve()) memory = from_allocator();
    if (!memory) memory = from_allocator();  // another thread has used the reserve in between, and not all of it
  }
  if (memory) return memory;
  weir::app::end_before_words();
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return take_or_throw(bytes, [bytes] { return std::malloc(bytes > 0 ? bytes : 1); });
}

void* operator new(std::size_t bytes, std::align_val_t align) {
  std::size_t unit = std::size_t(align), rounded = (bytes + unit - 1) / unit * unit;  // as C's aligned_alloc wants it
  if (rounded < bytes) throw std::bad_alloc();
  return take_or_throw(bytes, [=] { return std::aligned_alloc(unit, rounded > 0 ? rounded : unit); });
}

void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
void* operator new[](std::size_t bytes, std::align_val_t align) { return ::operator new(bytes, align); }
