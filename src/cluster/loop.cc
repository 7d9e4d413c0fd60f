#include "cluster/loop.h"

#include <sys/random.h>

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"

namespace weir::cluster {

namespace {

constexpr base::Duration kLongest = std::chrono::seconds(10);  // that the loop sleeps

}  // namespace

base::Time Loop::now() const { return base::steady_now(); }

uint64_t Loop::random() {
  uint64_t out = 0;
  base::check(::getrandom(&out, sizeof out, 0) == sizeof out, "the kernel gives no random bytes");
  return out;
}

bool Loop::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  if (stopping_) return false;
  posted_.push_back(std::move(work));
  changed_.notify_one();
  return true;
}

base::TimerId Loop::at(base::Time when, std::function<void()> fire) {
  auto id = base::TimerId(++last_);
  timers_.emplace(std::pair(when, id), std::move(fire));
  return id;
}

void Loop::cancel(base::TimerId id) {
  std::erase_if(timers_, [id](const auto& timer) { return timer.first.second == id; });
}

// How long until the next one.
base::Duration Loop::fire_due() {
  while (!timers_.empty()) {
    const base::Duration left = timers_.begin()->first.first - now();
    if (left > base::Duration(0)) return std::min(left, kLongest);
    auto node = timers_.extract(timers_.begin());
    node.mapped()();
  }
  return kLongest;
}

void Loop::run() {
  for (;;) {
    const base::Duration wait = fire_due();
    std::deque<std::function<void()>> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, wait, [this] { return stopping_ || !posted_.empty(); });
      if (stopping_ && posted_.empty()) return;
      work.swap(posted_);
    }
    for (auto& one : work) one();
  }
}

void Loop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace weir::cluster
