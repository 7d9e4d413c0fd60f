// Budget: what a caller allows for one piece of work on text, where it is less than what the work is bounded by anyhow.
// A shard renders a template only as far as it may keep its connections waiting; a worker stops when the client leaves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir::text {

struct Budget {
  uint64_t steps = UINT64_MAX;                   // of a template (jinja::Evaluation); about 100 ns each
  size_t bytes = SIZE_MAX;                       // of text that is made
  const std::atomic<bool>* cancelled = nullptr;  // borrowed; true: nobody waits for the result any more

  bool stopped() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
};

// For a shard: a few milliseconds at most.
inline constexpr Budget kBrief{20'000, size_t(16) << 10, nullptr};

}  // namespace weir::text
