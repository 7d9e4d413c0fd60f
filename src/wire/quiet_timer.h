// QuietTimer: has a stream send something where it was quiet for long, so that proxies do not take it for dead. The
// shard's thread.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "base/env.h"
#include "wire/exchange.h"
#include "wire/service_guard.h"

namespace weir::wire {

class QuietTimer {
 public:
  // `ping` sends something, and says so with sent(). Both are borrowed.
  QuietTimer(base::Env& env, Exchange& exchange, std::function<void()> ping)
      : env_(env), exchange_(exchange), ping_(std::move(ping)) {}
  ~QuietTimer() { stop(); }

  void start() {
    sent();
    arm();
  }
  void sent() { last_ = env_.now(); }
  void stop() { env_.cancel(std::exchange(timer_, base::TimerId::kNone)); }

 private:
  static constexpr base::Duration kQuiet = std::chrono::seconds(15);

  void arm() {
    timer_ = env_.at(last_ + kQuiet, [this] {
      timer_ = base::TimerId::kNone;
      guarded(exchange_, [this] {
        if (env_.now() - last_ >= kQuiet) ping_();
        arm();
      });
    });
  }

  base::Env& env_;
  Exchange& exchange_;
  const std::function<void()> ping_;
  base::Time last_;  // when something was sent
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::wire
