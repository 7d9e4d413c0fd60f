// An operator new that can be told which allocation of one thread fails. For one source file of a program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> left{-1};      // allocations until one fails; < 0: none does
thread_local bool counted = false;  // this is the lane's thread
}  // namespace

void* operator new(std::size_t bytes) {
  bool fails = counted && left.load() >= 0 && left.fetch_sub(1) == 0;
  void* memory = fails ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
