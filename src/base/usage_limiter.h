// UsageLimiter: how much one key may ask for, over all shards: requests a second, requests at once, tokens and bytes a
// minute. The rates are token buckets, kept as the generic cell rate algorithm does (ITU-T I.371): one atomic each says
// when the bucket is full again. Lock-free; any thread; the caller says what time it is.
//
// Tokens and bytes are known only when they have been used: they may take a bucket below zero, and then no request is
// let in until it has filled again.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/env.h"
#include "base/status.h"

namespace weir::base {

// 0: no limit.
struct UsageLimits {
  double requests_per_second = 0;  // a second's worth of them may come at once, and always one
  uint32_t concurrent = 0;
  uint64_t tokens_per_minute = 0;  // of prompts and answers together
  uint64_t bytes_per_minute = 0;   // of the bodies of requests and answers together

  bool none() const {
    return requests_per_second <= 0 && concurrent == 0 && tokens_per_minute == 0 && bytes_per_minute == 0;
  }
  friend bool operator==(const UsageLimits&, const UsageLimits&) = default;
};

class TokenBucket {
 public:
  // A rate of 0 has no limit. `burst` is how many there are in a full bucket, at least 1.
  TokenBucket(double per_second, double burst);

  bool limited() const { return interval_ > 0; }
  // Takes one if there is one.
  bool take(Time now);
  // Takes `n`, also where there are fewer.
  void charge(Time now, uint64_t n);
  // How long until there is one; 0 where there is.
  Duration wait(Time now) const;

 private:
  int64_t full_at(int64_t now) const;

  double interval_ = 0;  // nanoseconds for one
  int64_t depth_ = 0;    // nanoseconds for a full bucket
  std::atomic<int64_t> full_at_{INT64_MIN};
};

class UsageLimiter {
 public:
  // `name`: of the key, for the texts of errors.
  UsageLimiter(std::string name, const UsageLimits& limits);

  const UsageLimits& limits() const { return limits_; }
  // One request begins. Errors, and nothing is taken: RESOURCE_EXHAUSTED names the limit and says when to come again
  // (retry_after() of base/status.h).
  Status enter(Time now);
  // The same for one that was counted when its client asked, and runs now: it takes none of requests_per_second.
  Status enter_counted(Time now);
  // It has ended: after each of the two that was OK.
  void leave() { running_.fetch_sub(1, std::memory_order_relaxed); }
  // One more request within one that has entered (a message of a stream). Errors: as of enter().
  Status again(Time now);
  void charge_tokens(Time now, uint64_t n) { tokens_.charge(now, n); }
  void charge_bytes(Time now, uint64_t n) { bytes_.charge(now, n); }

 private:
  Status over(std::string_view limit, Duration wait) const;
  Status check_debts(Time now) const;
  Status take_request(Time now);

  const std::string name_;
  const UsageLimits limits_;
  std::atomic<uint32_t> running_{0};
  TokenBucket requests_, tokens_, bytes_;
};

}  // namespace weir::base
