// A shard without a network: a thread that runs what is posted to it, its timers, and its Bus's turns.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/env.h"
#include "bus/bus.h"

namespace weir::sched {

class ShardThread final : public base::Env {
 public:
  explicit ShardThread(uint16_t id)
      : bus(*this, base::ShardId(id), [this] { post([] {}); }, {100'000}), thread_([this] { run(); }) {}
  // Ends when nothing is in flight any more.
  ~ShardThread() {
    post([this] { closing_ = true; });
    thread_.join();
  }

  void post(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

  base::Time now() const override { return std::chrono::steady_clock::now(); }
  base::WallTime wall() const override { return base::WallTime(); }
  uint64_t random() override { return 4; }
  base::TimerId at(base::Time when, std::function<void()> fire) override {
    auto id = base::TimerId(++last_);
    timers_.emplace(std::pair(when, id), std::move(fire));
    return id;
  }
  void cancel(base::TimerId id) override {
    std::erase_if(timers_, [id](const auto& t) { return t.first.second == id; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> work_;  // under mutex_
  std::map<std::pair<base::Time, base::TimerId>, std::function<void()>> timers_;
  uint64_t last_ = 0;
  bool closing_ = false;

 public:
  bus::Bus bus;

 private:
  void run() {
    std::vector<std::function<void()>> now_due;
    while (!closing_ || bus.in_flight() > 0) {
      {
        std::unique_lock lock(mutex_);
        auto something = [&] { return !work_.empty(); };
        if (timers_.empty())
          wake_.wait(lock, something);
        else
          wake_.wait_until(lock, timers_.begin()->first.first, something);
        now_due.swap(work_);
      }
      for (auto& work : now_due) work();
      now_due.clear();
      while (!timers_.empty() && timers_.begin()->first.first <= now()) timers_.extract(timers_.begin()).mapped()();
      bus.turn();
    }
  }

  std::thread thread_;
};

}  // namespace weir::sched
