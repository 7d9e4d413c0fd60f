#include "engines/forward/hedge.h"

#include <algorithm>
#include <utility>

namespace weir::forward {

// May destroy this.
void Hedge::on_over(Attempt::Outcome&& ending) { call.home.hedge_over(call, std::move(ending)); }

// Stochastic approximation: a step up where it took longer, a step down where it did not, of sizes that balance at the
// quantile. Steps are a part of the estimate itself, so that no scale has to be known.
void Quantile::add(base::Duration took) {
  constexpr double kStep = 0.1;
  if (seen_ < UINT32_MAX) ++seen_;
  if (seen_ == 1) value_ = took;
  const double step = kStep * double(std::max<int64_t>(value_.count(), 1000));
  value_ += base::Duration(int64_t(took > value_ ? step * share_ : -step * (1 - share_)));
}

}  // namespace weir::forward
