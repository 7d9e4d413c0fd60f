// Budget: what a caller allows for one rendering, where that is less than the limits that hold for every template.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace jinja {

struct Budget {
  uint64_t steps = UINT64_MAX;                   // of evaluation; about 100 ns each
  size_t bytes = SIZE_MAX;                       // of all strings made
  const std::atomic<bool>* cancelled = nullptr;  // borrowed; may become true at any time: rendering ends soon

  bool stopped() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
};

}  // namespace jinja
