#include "base/usage_limiter.h"

#include <algorithm>
#include <utility>

namespace weir::base {
namespace {

constexpr double kSecond = 1e9;
constexpr int64_t kMostDebt = int64_t(3600) * 1'000'000'000;  // an hour: no one request shuts a key out for longer

int64_t nanoseconds(Time t) { return t.time_since_epoch().count(); }

}  // namespace

TokenBucket::TokenBucket(double per_second, double burst)
    : interval_(per_second > 0 ? kSecond / per_second : 0), depth_(int64_t(interval_ * std::max(1.0, burst))) {}

int64_t TokenBucket::full_at(int64_t now) const { return std::max(now, full_at_.load(std::memory_order_relaxed)); }

bool TokenBucket::take(Time when) {
  if (!limited()) return true;
  const int64_t now = nanoseconds(when);
  int64_t seen = full_at_.load(std::memory_order_relaxed);
  for (;;) {
    const int64_t next = std::max(now, seen) + int64_t(interval_);
    if (next - now > depth_) return false;
    if (full_at_.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
}

void TokenBucket::charge(Time when, uint64_t n) {
  if (!limited() || n == 0) return;
  const int64_t now = nanoseconds(when);
  const auto cost = int64_t(std::min(double(n) * interval_, double(kMostDebt)));
  int64_t seen = full_at_.load(std::memory_order_relaxed), next = 0;
  do {
    next = std::min(std::max(now, seen) + cost, now + depth_ + kMostDebt);
  } while (!full_at_.compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

Duration TokenBucket::wait(Time when) const {
  if (!limited()) return Duration(0);
  const int64_t now = nanoseconds(when);
  return Duration(std::max(int64_t(0), full_at(now) + int64_t(interval_) - now - depth_));
}

UsageLimiter::UsageLimiter(std::string name, const UsageLimits& limits)
    : name_(std::move(name)),
      limits_(limits),
      requests_(limits.requests_per_second, limits.requests_per_second),
      tokens_(double(limits.tokens_per_minute) / 60, double(limits.tokens_per_minute)),
      bytes_(double(limits.bytes_per_minute) / 60, double(limits.bytes_per_minute)) {}

Status UsageLimiter::over(std::string_view limit, Duration wait) const {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(wait);
  return try_again(Code::kResourceExhausted,
                   "the key '" + name_ + "' is over its limit of " + std::string(limit) + "; try again later",
                   std::max(std::chrono::seconds(1), seconds));
}

Status UsageLimiter::enter(Time now) {
  Status status = enter_counted(now);
  if (!status.ok()) return status;
  status = take_request(now);
  if (!status.ok()) leave();
  return status;
}

Status UsageLimiter::enter_counted(Time now) {
  const uint32_t before = running_.fetch_add(1, std::memory_order_relaxed);
  Status status;
  if (limits_.concurrent > 0 && before >= limits_.concurrent)
    status = over("requests at once (concurrent)", Duration(0));
  else
    status = check_debts(now);
  if (!status.ok()) leave();
  return status;
}

Status UsageLimiter::again(Time now) {
  Status status = check_debts(now);
  return status.ok() ? take_request(now) : status;
}

Status UsageLimiter::check_debts(Time now) const {
  if (auto wait = tokens_.wait(now); wait.count() > 0) return over("tokens (tokens_per_minute)", wait);
  if (auto wait = bytes_.wait(now); wait.count() > 0) return over("bytes (bytes_per_minute)", wait);
  return {};
}

Status UsageLimiter::take_request(Time now) {
  return requests_.take(now) ? Status() : over("requests (requests_per_second)", requests_.wait(now));
}

}  // namespace weir::base
