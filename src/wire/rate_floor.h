// The slowest rates at which a peer may send a request and take its answer, as pure arithmetic: no I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/env.h"

namespace weir::wire {

// The rate at which a peer must take its answer. It is checked once per `grace`. A peer with large buffers takes
// nothing for a while, however steadily it reads: after it has taken more than the rate, it may pause for up to
// `credit`.
struct DrainFloor {
  uint32_t rate;  // bytes per second
  base::Duration grace, credit;
};
inline constexpr base::Duration kDrainCredit = std::chrono::seconds(30);

// Checks that a transfer keeps a least rate: once it has run for `grace`, each further period of `grace` must bring
// `rate` bytes a second on average. Bytes count and not events, so a peer that sends a byte now and then does not pass.
class RateFloor {
 public:
  void start(base::Time now);  // does nothing while it runs; goes on after pause()
  void stop() { since_ = paused_ = base::kNever; }
  // Stops the clock until the next start(). Does nothing unless it runs.
  void pause(base::Time now);
  void add(int64_t bytes) { moved_ += bytes; }  // negative: takes back bytes that were counted too early
  bool running() const { return since_ != base::kNever; }
  // True once too few bytes were moved in a period; never for a rate of 0. Bytes beyond the rate count for the periods
  // that follow, up to what `credit` requires.
  bool below(base::Time now, uint32_t rate, base::Duration grace, base::Duration credit = {});
  bool below(base::Time now, const DrainFloor& least) { return below(now, least.rate, least.grace, least.credit); }

 private:
  base::Time since_ = base::kNever, paused_ = base::kNever;
  int64_t moved_ = 0;
};

// A RateFloor for output. Only bytes that the peer has taken count, and not those that the socket has: a socket takes
// megabytes at once, and then none until a third of them has gone, however steadily a slow peer reads.
class OutputFloor {
 public:
  // Call this before start() and below(), with Wire::undelivered().
  void check_socket(size_t undelivered) {
    floor_.add(int64_t(std::exchange(undelivered_, undelivered)) - int64_t(undelivered));
  }
  size_t undelivered() const { return undelivered_; }
  void written(size_t bytes) { floor_.add(int64_t(bytes)); }
  void start(base::Time now) { floor_.start(now); }
  void stop() { floor_.stop(); }
  bool below(base::Time now, const DrainFloor& least) { return floor_.below(now, least); }

 private:
  RateFloor floor_;
  size_t undelivered_ = 0;
};

// The rate of all request bodies of one connection together. Its streams share the connection, so a body that is slow
// by itself is tolerated while all of them together are fast enough. Bytes beyond that count for the next `grace`.
class SharedPace {
 public:
  void add(size_t bytes) { moved_ += double(bytes); }
  // The rate of a body that look() is not told of has changed by `more` bytes per second.
  void await(int64_t more) { awaited_ += more; }
  // Call this from time to time. `rate`: the sum of the rates of all other bodies, in bytes per second. When the sum
  // with those of await() is 0, no body is awaited, and the measurement begins anew.
  void look(base::Time now, uint64_t rate, base::Duration grace);
  // As of the last look.
  bool below() const { return ahead_ < 0; }

 private:
  base::Time at_ = base::kNever;
  double moved_ = 0, ahead_ = 0;
  int64_t awaited_ = 0;
};

// The rate, in bytes per second, that a body must keep: `least`, or, where memory is scarce, the rate that fills the
// `reserved` bytes held for it in a minute. So a client that holds 64 MiB while others wait must send them at a
// megabyte a second, while slow links have the time that `least` gives them as long as there is memory for all. 0 stays
// 0: no limit.
uint32_t floor_rate(uint32_t least, uint64_t reserved, const base::SlabSource& slabs);

}  // namespace weir::wire
