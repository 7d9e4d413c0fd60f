// Budget: what a caller allows for one rendering, where that is less than the limits that hold for every template.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace jinja {

// Asked before a rendering takes memory, in pieces of 64 KiB at least.
class MemoryMeter {
 public:
  // False: there is no room, and the rendering ends with Error::Kind::kMemory.
  virtual bool take(uint64_t bytes) = 0;

 protected:
  ~MemoryMeter() = default;
};

struct Budget {
  uint64_t steps = UINT64_MAX;                   // of evaluation; about 100 ns each
  size_t bytes = SIZE_MAX;                       // of all strings made
  const std::atomic<bool>* cancelled = nullptr;  // borrowed; may become true at any time: rendering ends soon
  MemoryMeter* memory = nullptr;                 // borrowed

  bool stopped() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
};

}  // namespace jinja
