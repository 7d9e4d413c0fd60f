// Traffic: so many requests over so many connections, at once or at random times, and how long they took.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "work.h"

namespace weir::load {

struct Plan {
  uint16_t port = 0;
  uint32_t connections = 1;
  uint32_t streams = 1;  // requests at once on one connection: gRPC's
  uint64_t requests = 1;
  double rate = 0;    // requests per second, as a Poisson process; 0: the next when one is over
  double limit = 60;  // seconds; what has not come by then is left
  uint32_t seed = 1;
};

// Times in milliseconds. Of requests at random times they count from when the request was due, not from when a
// connection was free for it.
struct LoadResults {
  std::vector<double> first, gaps, whole;                // to the first token, between tokens, to the end
  uint64_t done = 0, failed = 0, tokens = 0, bytes = 0;  // bytes: sent
  bool cut = false;                                      // by the limit
  Clock::time_point began = Clock::time_point::max(), ended = Clock::time_point::min();

  double seconds() const { return std::chrono::duration<double>(ended - began).count(); }
  void add(LoadResults&& other);
};

// Runs it on this thread. `start` is called when all connections stand (at random times they are made as they are
// needed): it returns when the load may begin.
LoadResults run(const Plan& plan, Work& work, const std::function<void()>& start);

}  // namespace weir::load
