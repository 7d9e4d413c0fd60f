// Env: the outside world as the deterministic rooms see it: clock, timers, randomness.
//
// bus, session and sched::Batcher name no clock, thread or random device; they take an Env. Production wraps one event
// loop per shard (net), tests and the simulator crank a fake one by hand (base/fake_env.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace weir::base {

// Monotonic time. Only an Env says what now is.
using Time = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using Duration = std::chrono::nanoseconds;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

inline constexpr Time kNever = Time::max();

enum class TimerId : uint64_t { kNone = 0 };

class Env {
 public:
  // The time at which this turn of the loop began: cheap, and constant within a turn.
  virtual Time now() const = 0;
  virtual WallTime wall() const = 0;
  // 64 uniform bits; seeded in the simulator, from the kernel in production. Fit for session ids.
  virtual uint64_t random() = 0;
  // Calls `fire` once, on this Env's thread, not before `when`.
  virtual TimerId at(Time when, std::function<void()> fire) = 0;
  // After this `fire` is never called. Cancelling a timer that has fired, or kNone, does nothing.
  virtual void cancel(TimerId id) = 0;

 protected:
  ~Env() = default;
};

}  // namespace weir::base
