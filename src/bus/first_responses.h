// FirstResponses: how long after its request the first answer came, as a histogram: Triton's
// nv_inference_first_response_histogram_ms. Any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::bus {

class FirstResponses {
 public:
  static constexpr size_t kMostBounds = 32;
  // In milliseconds, ascending, kMostBounds at most. Before anybody reads.
  void set_bounds(std::vector<double> bounds) { bounds_ = std::move(bounds); }
  void add(uint64_t ns) {
    const uint64_t ms = ns / 1'000'000;
    const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), double(ms)) - bounds_.begin();
    counts_[size_t(at)].fetch_add(1, std::memory_order_relaxed);
    sum_ms_.fetch_add(ms, std::memory_order_relaxed);
  }
  const std::vector<double>& bounds() const { return bounds_; }
  // Those that took as long as the bound of that place and longer than the one before; behind the last, the rest.
  uint64_t count(size_t place) const { return counts_[place].load(std::memory_order_relaxed); }
  uint64_t sum_ms() const { return sum_ms_.load(std::memory_order_relaxed); }

 private:
  std::vector<double> bounds_{100, 500, 2000, 5000};
  std::array<std::atomic<uint64_t>, kMostBounds + 1> counts_{};
  std::atomic<uint64_t> sum_ms_{0};
};

}  // namespace weir::bus
