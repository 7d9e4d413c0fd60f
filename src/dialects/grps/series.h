// A number over the last minute, hour, day and month: one value per second goes in, four rings keep it.
//
// 60 seconds make a minute, 60 minutes an hour, 24 hours a day, by the Series' rule; 30 days are kept. Pure: whoever
// has a clock pushes once a second.
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
  enum class Rule : uint8_t { kMax, kMin, kAvg, kInc };  // kInc: what was counted adds up

  explicit Series(Rule rule) : rule_(rule) {}

  void push(double second);
  double last() const { return seconds_.newest(); }
  // Days, hours, minutes, seconds; each from the oldest to the newest, 0 where nothing was yet.
  std::vector<double> trend() const;

 private:
  template <size_t N>
  class Ring {
   public:
    // True when this has filled the ring once more.
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

  // The Histogram's counts since the process began, once a second.
  void push(const Buckets& totals);
  uint64_t count() const;
  // Seconds that the fraction `q` of them did not exceed, to the precision of the buckets; 0 when there were none.
  double at(double q) const;
  // Describes the last second: its mean is the caller's to know; the bounds of its slowest and fastest bucket, 0 when
  // none.
  double slowest() const;
  double fastest() const;

 private:
  static double bound(size_t bucket);
  std::array<Buckets, Series::kSeconds> seconds_{};  // what each second added
  Buckets sum_{}, totals_{};
  size_t at_ = 0;
};

}  // namespace weir::grps
