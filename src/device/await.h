// Waiting for a device, on a lane's own thread. Never on a shard: a shard is told by a Done, or by its mailbox.
#pragma once

#include <chrono>

#include "device/device.h"

namespace weir::device {

// A device that has not come to an event within this has hung.
inline constexpr std::chrono::nanoseconds kPatience = std::chrono::seconds(30);

// The pauses of a thread that polls: none at first, since asking costs about half a microsecond, then ever longer ones.
// The thread's timers are exact from the first pause on: the kernel's usual slack of 50 µs would double the longest.
class PollBackoff {
 public:
  void wait();
  void reset() { *this = PollBackoff(); }  // something has happened
  // A pause after so long a wait: a 64th of it, which is how late the end is seen then, from 2 to 50 µs.
  static std::chrono::nanoseconds pause(std::chrono::nanoseconds waited);

 private:
  int asked_ = 0;
  std::chrono::steady_clock::time_point since_{};
};

// Polls until the event is done: at the pace of a PollBackoff. A device that does not get there in
// time is at fault from then on, without a cure: it may still write what it was told to. Errors: UNAVAILABLE.
base::Status await(Device& device, const Event& event, std::chrono::nanoseconds patience = kPatience);

// The device has hung: it is at fault from here on. Says so.
base::Status give_up(Device& device, std::chrono::nanoseconds patience);

}  // namespace weir::device
