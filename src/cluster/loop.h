// Loop: the thread of this room, and its Env: what other threads post, and timers.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/env.h"

namespace weir::cluster {

class Loop final : public base::Env {
 public:
  Loop() = default;
  ~Loop() { stop(); }

  void start() {
    thread_ = std::thread([this] { run(); });
  }
  // Work that was posted before still runs; timers do not.
  void stop();
  // Any thread. False: it has been stopped, and `work` is not run.
  bool post(std::function<void()> work);

  base::Time now() const override;
  base::WallTime wall() const override { return std::chrono::system_clock::now(); }
  uint64_t random() override;
  // The next two on the loop's thread, or before it starts.
  base::TimerId at(base::Time when, std::function<void()> fire) override;
  void cancel(base::TimerId id) override;

 private:
  void run();
  base::Duration fire_due();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;  // under mutex_
  bool stopping_ = false;                     // under mutex_
  std::map<std::pair<base::Time, base::TimerId>, std::function<void()>> timers_;
  uint64_t last_ = 0;
  std::thread thread_;
};

}  // namespace weir::cluster
