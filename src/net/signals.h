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

// From here on SIGHUP and SIGUSR1, which would end the process, wait for a Signals, and SIGPIPE is ignored: who renews
// certificates or rotates logs does not know how far a server has come. Again once the Signals is destroyed.
void hold_signals();

// From here on SIGTERM and SIGINT end the process at once, with 128 + their number: whoever asks twice does not want to
// wait for open requests, nor for a thread that hangs while all is taken down. They do not come to Signals any more.
// Once it is destroyed, they end the process as signals do that nobody handles. Any thread.
void end_at_next_signal();

}  // namespace weir::net
