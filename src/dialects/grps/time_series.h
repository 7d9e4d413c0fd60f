// The history of a number over the last minute, hour, day and 30 days.
//
// push() gets one value per second. After every 60 seconds their values become one value of a minute, by the Series'
// Rule, and so do minutes and hours; each ring keeps its newest values. Pure: the caller has the clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/metrics.h"

namespace weir::grps {

class Series {
 public:
  static constexpr size_t kSeconds = 60, kMinutes = 60, kHours = 24, kDays = 30;
  static constexpr size_t kPoints = kDays + kHours + kMinutes + kSeconds;
  enum class Rule : uint8_t { kMax, kMin, kAvg, kSum };

  explicit Series(Rule rule) : rule_(rule) {}

  void push(double second);
  double last() const { return seconds_.newest(); }
  // kPoints values: days, hours, minutes, seconds, each from the oldest to the newest; 0 before the first push().
  std::vector<double> trend() const;

 private:
  template <size_t N>
  class Ring {
   public:
    // True when all N values have been replaced since the last time that this was true.
    bool push(double v) {
      cells_[at_] = v;
      at_ = (at_ + 1) % N;
      return at_ == 0;
    }
    double newest() const { return cells_[(at_ + N - 1) % N]; }
    double operator[](size_t age) const { return cells_[(at_ + age) % N]; }  // 0 = the oldest
    const std::array<double, N>& cells() const { return cells_; }

   private:
    std::array<double, N> cells_{};
    size_t at_ = 0;
  };
  template <size_t N>
  double roll(const std::array<double, N>& cells) const;

  Rule rule_;
  Ring<kSeconds> seconds_;
  Ring<kMinutes> minutes_;
  Ring<kHours> hours_;
  Ring<kDays> days_;
};

// The distribution of a Histogram of durations over the last minute.
class RecentQuantiles {
 public:
  static constexpr size_t kCells = base::Histogram::kBuckets + 1;
  using Buckets = std::array<uint64_t, kCells>;

  // Takes the Histogram's counts since the process began; call it once a second.
  void push(const Buckets& totals);
  uint64_t count() const;
  // The quantile `q` (0 to 1) in seconds, to the precision of the buckets; 0 if nothing was counted.
  double at(double q) const;
  // The last second's slowest bucket (its upper bound) and fastest one (its lower bound), in seconds; 0 if nothing was
  // counted.
  double slowest() const;
  double fastest() const;

 private:
  static double bound(size_t bucket);
  std::array<Buckets, Series::kSeconds> seconds_{};  // the counts that each second added
  Buckets sum_{}, totals_{};
  size_t at_ = 0;
};

}  // namespace weir::grps
