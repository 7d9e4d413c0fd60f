// The overload ladder: what the server stops doing as its memory fills, in the order of what that costs its clients.
//
//   kShrink   receive windows shrink to their least: what comes is what is worked on
//   kClose    no keep-alive: a connection ends with its answer, idle ones end soon
//   kRefuse   work is refused (503, RESOURCE_EXHAUSTED, with Retry-After), and readiness says so
//   kStop     connections are accepted ten times a second, for whoever asks whether the server lives
//
// A step is taken at its share of the budget and left again once a twentieth of the budget below it is free, so that
// one request more or less does not make it flap. base::MemoryLedger keeps the step that a server is on.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace weir::base {

enum class Overload : uint8_t { kNone, kShrink, kClose, kRefuse, kStop };

// Percent of the budget at which each step is taken, in the order of the steps; above 100: never.
struct OverloadShares {
  uint32_t shrink = 70, close = 85, refuse = 92, stop = 97;
  static OverloadShares never() { return {101, 101, 101, 101}; }
};

// The step to be on with `held` of `budget` bytes, coming from `now`. Pure.
Overload overload_step(const OverloadShares& shares, Overload now, uint64_t held, uint64_t budget);

// RESOURCE_EXHAUSTED that is the server's lack and not the client's excess, to be tried again soon: HTTP says 503.
Status overloaded(std::string text);
// As http_status(Code), but 503 for what overloaded() made.
int http_status(const Status& status);

}  // namespace weir::base
