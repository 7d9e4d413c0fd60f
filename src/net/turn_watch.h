// TurnWatch: how long the turns of one shard's loop take, and on what.
//
// A turn is slow when it has used more than kSlow of CPU time: the shard's other connections waited as long. It is
// counted by its cause, the phase that took most of it; one that merely lasted as long, because its thread was not
// running (it blocked, or the machine was busy), is counted as kOffCpu.
//
// Cost: begin() and end() are given the two readings of the steady clock that a turn makes. Phases are told apart by
// the processor's time stamp counter, about 8 ns each. The thread's CPU clock is a system call of 0.2 µs: it is read
// once in kMark of turns, and at the end of a turn that lasted longer than any before it or than kSlow. A turn's CPU
// time is therefore known to within about kMark, and never told too short.
//
// The shard's thread, but for what says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/metrics.h"

namespace weir::net {

class Watchdog;

class TurnWatch {
 public:
  static constexpr base::Duration kSlow = std::chrono::milliseconds(25);
  static constexpr base::Duration kMark = std::chrono::milliseconds(1);

  // kRead: sockets that are ready, new connections, and what else the loop waits for.
  enum class Phase : uint8_t { kRead, kPosted, kTimer, kHook, kWrite };
  enum class Cause : uint8_t { kRead, kPosted, kTimer, kHook, kWrite, kOffCpu };
  static constexpr size_t kPhases = 5, kCauses = 6;
  static const char* name(Cause cause);

  // Any thread; shared with the metrics, which may be read when the shard has gone.
  struct Totals {
    std::array<base::Counter, kCauses> slow;
    std::atomic<int64_t> longest_ns{0};  // CPU time of the longest turn so far
    std::atomic<int64_t> busy_ns{0};     // that turns have lasted, together
  };
  std::shared_ptr<const Totals> totals() const { return totals_; }
  // The totals of all shards, in their order, as families in Prometheus text.
  using AllTotals = std::vector<std::shared_ptr<const Totals>>;
  static void append(std::string& out, const AllTotals& shards);

  void begin(base::Time now);
  // From here on the turn's time is this phase's. Returns the phase before.
  Phase enter(Phase phase);
  struct Turn {
    bool slow = false;  // what follows is set if it is
    Cause cause = Cause::kRead;
    base::Duration lasted{0}, cpu{0};
  };
  Turn end(base::Time now);

  // The CPU time of a piece of a turn's work that has just ended and lasted so long: where it may have been
  // interrupted, no more than the thread has had since this was last asked, or since kMark before the turn began.
  base::Duration cpu_of(base::Duration lasted);

  // The thread has worked between two turns.
  void worked_between() { unmarked_ = true; }

  // The thread that turns the loop: at its begin and before its end.
  void arrive();
  void leave();

  // The watch whose call_me() is called when a turn begins; null: none. Any thread; the shard may run.
  void set_watchdog(Watchdog* dog);
  // Any thread: the watchdog sleeps, and is to be woken by the begin of the next turn.
  void call_me() { wanted_.store(true, std::memory_order_relaxed); }
  // Any thread: when the turn under way began (nanoseconds of the steady clock), or 0.
  int64_t turn_began() const { return began_ns_.load(std::memory_order_relaxed); }
  // Any thread: sends a signal to the shard's thread if it is in a turn. False: it is not.
  bool signal(int number);

 private:
  Cause cause() const;
  void mark(base::Duration cpu);
  void call();

  const std::shared_ptr<Totals> totals_ = std::make_shared<Totals>();
  base::Time began_{};
  base::Duration cpu_mark_{0};   // the thread's CPU time when turns had lasted marked_ns_
  base::Duration asked_cpu_{0};  // and at the last cpu_of() that has read it
  int64_t longest_ns_ = 0, busy_ns_ = 0, marked_ns_ = 0;
  bool unmarked_ = true;
  uint64_t entered_ = 0;  // the time stamp counter when phase_ began
  Phase phase_ = Phase::kRead;
  std::array<uint64_t, kPhases> spent_{};
  std::atomic<int64_t> began_ns_{0};

  std::atomic<bool> wanted_{false};
  std::mutex mutex_;         // the thread does not end, nor the watchdog, while the other holds it
  Watchdog* dog_ = nullptr;  // under mutex_
  int tid_ = 0;              // under mutex_; 0: there is no thread
};

}  // namespace weir::net
