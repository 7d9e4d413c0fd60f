// Watchdog: looks at shards from outside, and takes the stack of one whose turn lasts too long, while it lasts.
//
// A thread that checks every kLook while any shard turns its loop, and when a turn that it has seen would be slow; when
// none has turned for kIdleTime it sleeps until one does. A turn that lasts more than TurnWatch::kSlow is slow: its
// thread is sent SIGURG, whose handler writes the return addresses down (backtrace(), which allocates nothing once it
// has been called), and this thread makes words of them. One stack in `every`; slow turns are counted by TurnWatch, not
// here. One Watchdog at a time has the signal; another takes no stacks.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "net/fd.h"
#include "net/turn_watch.h"

namespace weir::net {

class Watchdog {
 public:
  static constexpr base::Duration kLook = TurnWatch::kSlow;
  static constexpr base::Duration kIdleTime = std::chrono::seconds(1);

  struct Stack {
    size_t shard = 0;  // its place in `shards`
    base::Duration so_far{0};
    // Innermost first: "weir+0x1a2b3c", the file that the code is in and the place in it, as addr2line wants it.
    std::vector<std::string> frames;
  };
  using Report = std::function<void(const Stack&)>;  // on the watchdog's thread

  // `shards` outlive this.
  Watchdog(std::vector<TurnWatch*> shards, base::Duration every, Report report);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

  // Any thread.
  void wake();

  // The report of production: one warning in the log.
  static void log(const Stack& stack);

 private:
  void run();
  bool check_turns(base::Time now);
  void rest(base::Time now);
  bool woken_within(base::Duration time);
  void take(size_t shard, base::Time now, base::Duration so_far);

  const std::vector<TurnWatch*> shards_;
  const base::Duration every_;
  const Report report_;
  bool has_signal_ = false;
  base::Time next_{};     // no stack is taken before
  base::Time busy_at_{};  // when a shard was last seen to turn
  base::Duration look_in_ = kLook;
  const Fd wake_;  // an eventfd: a shard that writes to it waits for nobody
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace weir::net
