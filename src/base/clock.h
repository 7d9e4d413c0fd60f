// The clocks of threads that have no Env: lanes, workers, timers. Deterministic rooms take an Env instead.
#pragma once

#include <cstdint>

#include "base/env.h"

namespace weir::base {

// The monotonic clock that production's Env reads, too.
Time steady_now();

// The wall clock for statistics, to a few milliseconds: a fifth of the price of the exact time.
uint64_t unix_ms();

}  // namespace weir::base
