#include "base/clock.h"

#include <time.h>

namespace weir::base {

Time steady_now() { return std::chrono::steady_clock::now(); }

uint64_t unix_ms() {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return uint64_t(now.tv_sec) * 1000 + uint64_t(now.tv_nsec) / 1'000'000;
}

}  // namespace weir::base
