#include "dialects/grps/time_series.h"

#include <algorithm>
#include <numeric>

namespace weir::grps {

template <size_t N>
double Series::roll(const std::array<double, N>& cells) const {
  switch (rule_) {
    case Rule::kMax: return *std::max_element(cells.begin(), cells.end());
    case Rule::kMin: return *std::min_element(cells.begin(), cells.end());
    case Rule::kAvg: return std::accumulate(cells.begin(), cells.end(), 0.0) / double(N);
    case Rule::kSum: break;
  }
  return std::accumulate(cells.begin(), cells.end(), 0.0);
}

void Series::push(double second) {
  if (!seconds_.push(second)) return;
  if (!minutes_.push(roll(seconds_.cells()))) return;
  if (!hours_.push(roll(minutes_.cells()))) return;
  days_.push(roll(hours_.cells()));
}

std::vector<double> Series::trend() const {
  std::vector<double> out;
  out.reserve(kPoints);
  for (size_t i = 0; i < kDays; ++i) out.push_back(days_[i]);
  for (size_t i = 0; i < kHours; ++i) out.push_back(hours_[i]);
  for (size_t i = 0; i < kMinutes; ++i) out.push_back(minutes_[i]);
  for (size_t i = 0; i < kSeconds; ++i) out.push_back(seconds_[i]);
  return out;
}

void RecentQuantiles::push(const Buckets& totals) {
  Buckets& second = seconds_[at_];
  for (size_t i = 0; i < kCells; ++i) {
    sum_[i] -= second[i];
    second[i] = totals[i] < totals_[i] ? 0 : totals[i] - totals_[i];
    sum_[i] += second[i];
  }
  totals_ = totals;
  at_ = (at_ + 1) % seconds_.size();
}

uint64_t RecentQuantiles::count() const { return std::accumulate(sum_.begin(), sum_.end(), uint64_t(0)); }

double RecentQuantiles::bound(size_t bucket) {
  return base::Histogram::bound(base::Histogram::Scale::kSeconds, std::min(bucket, base::Histogram::kBuckets - 1));
}

double RecentQuantiles::at(double q) const {
  double wanted = q * double(count()), below = 0;
  if (wanted == 0) return 0;
  for (size_t i = 0; i < kCells; ++i) {
    double here = double(sum_[i]);
    if (here > 0 && below + here >= wanted) {
      double low = i == 0 ? 0 : bound(i - 1);
      return low + (bound(i) - low) * (wanted - below) / here;
    }
    below += here;
  }
  return bound(kCells - 1);
}

double RecentQuantiles::slowest() const {
  const Buckets& last = seconds_[(at_ + seconds_.size() - 1) % seconds_.size()];
  for (size_t i = kCells; i-- > 0;)
    if (last[i] > 0) return bound(i);
  return 0;
}

double RecentQuantiles::fastest() const {
  const Buckets& last = seconds_[(at_ + seconds_.size() - 1) % seconds_.size()];
  for (size_t i = 0; i < kCells; ++i)
    if (last[i] > 0) return i == 0 ? 0 : bound(i - 1);
  return 0;
}

}  // namespace weir::grps
