// Signals: SIGTERM, SIGINT, SIGHUP and SIGUSR1 as calls on a shard's thread. One per process.
#pragma once

#include <functional>
#include <memory>

#include "net/shard.h"

namespace weir::net {

class Signals {
 public:
  // `on_signal` gets the number of each signal that arrives, on the shard's thread, until the Signals is destroyed:
  // after the shard has been joined, or on its thread; first those that hold_signals() has held. SIGPIPE is ignored
  // from here on.
  Signals(Shard& shard, std::function<void(int signal)> on_signal);
  ~Signals();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// From here on SIGHUP and SIGUSR1, which would end the process, are held until there is a Signals, and SIGPIPE is
// ignored: a script that renews certificates or rotates logs does not know whether the server has started. After the
// Signals is destroyed they are held again.
void hold_signals();

// From here on SIGTERM and SIGINT end the process at once, with the exit status 128 + their number, and do not come to
// Signals any more: a person who sends a second signal does not want to wait for open requests, nor for a thread that
// hangs in the shutdown. After the Signals is destroyed they have their default action. Any thread.
void end_at_next_signal();

}  // namespace weir::net
