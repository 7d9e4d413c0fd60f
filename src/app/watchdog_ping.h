// WatchdogPing: pings the service manager's watchdog as long as every shard turns its loop.
//
// A round asks every shard to run an empty task; the ping is sent when all have run it. A shard that hangs keeps its
// round open, so the pings end with it, and the manager restarts the process when its WatchdogSec= is over. A lane that
// hangs in its engine is not seen here.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "base/env.h"

namespace weir::app {

// How often to ping: a quarter of what $WATCHDOG_USEC allows, so that a round may take half of it and still be in time.
// `usec` and `pid` are the values of WATCHDOG_USEC and WATCHDOG_PID, or null. 0: nobody asks for pings of this process.
base::Duration watchdog_period(const char* usec, const char* pid);

class WatchdogPing {
 public:
  using Post = std::function<void(std::function<void()>)>;  // runs its argument on a shard; any thread

  // `env` is the first shard's; `ping` is called on its thread. Both outlive the shards' threads, as this does.
  WatchdogPing(base::Env& env, std::vector<Post> shards, base::Duration period, std::function<void()> ping);

  // On the first shard's thread, once: the first ping follows within a period.
  void start();

 private:
  void begin_round();

  base::Env& env_;
  const std::vector<Post> shards_;
  const base::Duration period_;
  const std::function<void()> ping_;
  std::atomic<size_t> open_{0};  // shards that have not answered in this round
};

}  // namespace weir::app
