#include "wire/rate_floor.h"

#include <algorithm>

namespace weir::wire {
namespace {

constexpr uint64_t kSecondsToFill = 60;

}  // namespace

void RateFloor::start(base::Time now) {
  if (paused_ != base::kNever) since_ += now - std::exchange(paused_, base::kNever);
  if (running()) return;
  since_ = now;
  moved_ = 0;
}

void RateFloor::pause(base::Time now) {
  if (running() && paused_ == base::kNever) paused_ = now;
}

bool RateFloor::below(base::Time now, uint32_t rate, base::Duration grace, base::Duration credit) {
  using Seconds = std::chrono::duration<double>;
  if (rate == 0 || !running() || paused_ != base::kNever || now - since_ < grace) return false;
  const double beyond = double(moved_) - rate * Seconds(now - since_).count();
  if (beyond < 0) return true;
  since_ = now;
  moved_ = int64_t(std::min(beyond, rate * Seconds(credit).count()));
  return false;
}

void SharedPace::look(base::Time now, uint64_t rate, base::Duration grace) {
  using Seconds = std::chrono::duration<double>;
  rate += uint64_t(awaited_);
  const double asked = at_ == base::kNever ? 0 : double(rate) * Seconds(now - at_).count();
  ahead_ = rate == 0 ? 0 : std::min(ahead_ + moved_ - asked, double(rate) * Seconds(grace).count());
  moved_ = 0, at_ = now;
}

uint32_t floor_rate(uint32_t least, uint64_t reserved, const base::SlabSource& slabs) {
  uint64_t swift = std::min<uint64_t>(reserved / kSecondsToFill, UINT32_MAX);
  if (least == 0 || swift <= least || !slabs.scarce()) return least;
  return uint32_t(swift);
}

}  // namespace weir::wire
