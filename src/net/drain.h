// Drain: how a server stops without failing a request.
//
//   drain_delay   serves as before, but is not ready, so that load balancers send no more
//   announce      listeners close (what waits in them is taken first); peers are told that the end is near
//   100 ms        for requests that cross the announcement on their way
//   refuse        nothing new; whoever is idle is closed
//   done          when the last connection has gone, or at drain_timeout after the announcement: then all are closed
//
// Runs on the first shard's thread.
#pragma once

#include <functional>

#include "base/env.h"

namespace weir::net {

class Drain {
 public:
  static constexpr base::Duration kCrossing = std::chrono::milliseconds(100);

  // The Server carries out these steps. Each one reaches all shards, some later than others.
  struct Steps {
    std::function<void()> announce, refuse;
    // Closes what is left; calls back on the first shard's thread with the number of connections that were busy.
    std::function<void(std::function<void(size_t busy)>)> force;
    std::function<size_t()> connections;
    std::function<void(bool clean)> done;
  };

  Drain(base::Env& env, base::Duration delay, base::Duration timeout, Steps steps);
  ~Drain();

  // A shard has no connection any more.
  void on_idle_shard();

 private:
  void announce();
  void refuse();
  void expire();
  void end(bool clean);

  base::Env& env_;
  const base::Duration timeout_;
  Steps steps_;
  bool refused_ = false, forced_ = false;
  base::TimerId next_ = base::TimerId::kNone, deadline_ = base::TimerId::kNone;
};

}  // namespace weir::net
