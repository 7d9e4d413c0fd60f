// An Env cranked by hand: for tests and the simulator. One thread.
#pragma once

#include <map>
#include <random>
#include <utility>

#include "base/env.h"

namespace weir::base {

class FakeEnv final : public Env {
 public:
  explicit FakeEnv(uint64_t seed = 1) : random_(seed) {}

  Time now() const override { return now_; }
  WallTime wall() const override { return WallTime(std::chrono::seconds(1'700'000'000)) + (now_ - Time()); }
  uint64_t random() override { return random_(); }

  TimerId at(Time when, std::function<void()> fire) override {
    auto id = TimerId(++last_);
    timers_.emplace(std::pair(when, id), std::move(fire));
    return id;
  }
  void cancel(TimerId id) override {
    std::erase_if(timers_, [id](const auto& t) { return t.first.second == id; });
  }

  // Moves the clock and fires what falls due, in order of time and then of creation.
  void advance(Duration by) {
    Time end = now_ + by;
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      auto node = timers_.extract(timers_.begin());
      now_ = std::max(now_, node.key().first);
      node.mapped()();
    }
    now_ = end;
  }
  size_t armed() const { return timers_.size(); }

 private:
  Time now_ = Time(std::chrono::seconds(1000));
  std::mt19937_64 random_;
  uint64_t last_ = 0;
  std::map<std::pair<Time, TimerId>, std::function<void()>> timers_;
};

}  // namespace weir::base
