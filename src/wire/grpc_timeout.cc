#include "wire/grpc_timeout.h"

#include <cstdint>

namespace weir::wire {
namespace {

constexpr size_t kMaxDigits = 8;

// Nanoseconds in one unit; 0 for a letter that is none.
int64_t unit_ns(char unit) {
  switch (unit) {
    case 'H': return 3'600'000'000'000;
    case 'M': return 60'000'000'000;
    case 'S': return 1'000'000'000;
    case 'm': return 1'000'000;
    case 'u': return 1'000;
    case 'n': return 1;
    default: return 0;
  }
}

}  // namespace

std::optional<base::Duration> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > kMaxDigits + 1) return std::nullopt;
  int64_t unit = unit_ns(text.back());
  if (unit == 0) return std::nullopt;
  int64_t value = 0;
  for (char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  int64_t ns = 0;
  if (__builtin_mul_overflow(value, unit, &ns)) return base::Duration::max();
  return base::Duration(ns);
}

std::optional<base::Duration> parse_connect_timeout(std::string_view text) {
  constexpr size_t kMostDigits = 10;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  int64_t ms = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    ms = ms * 10 + (c - '0');
  }
  return std::chrono::milliseconds(ms);
}

base::Time deadline_after(base::Time now, base::Duration timeout) {
  return timeout >= base::kNever - now ? base::kNever : now + timeout;
}

}  // namespace weir::wire
