#include "app/watchdog_ping.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

namespace weir::app {
namespace {

int64_t number_in(const char* text) {
  int64_t value = 0;
  if (text) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

base::Duration watchdog_period(const char* usec, const char* pid) {
  if (pid && *pid && number_in(pid) != ::getpid()) return {};
  return std::chrono::microseconds(number_in(usec)) / 4;
}

WatchdogPing::WatchdogPing(base::Env& env, std::vector<Post> shards, base::Duration period, std::function<void()> ping)
    : env_(env), shards_(std::move(shards)), period_(period), ping_(std::move(ping)) {}

void WatchdogPing::start() { begin_round(); }

// The timer is set first: one whose function throws is not fired again.
void WatchdogPing::begin_round() {
  env_.at(env_.now() + period_, [this] { begin_round(); });
  if (open_.load(std::memory_order_acquire) != 0) return;
  ping_();
  open_.store(shards_.size(), std::memory_order_relaxed);
  for (const auto& post : shards_) post([this] { open_.fetch_sub(1, std::memory_order_release); });
}

}  // namespace weir::app
