// UnreadBody: how much of a request's body is still taken, and thrown away, behind an answer that came before its end.
// Some clients (httpx, Java's HttpClient) look at no answer before all of their body is sent: to them, a body that is
// no longer taken is a server that hangs, and a reset is a server that has failed. Nothing of it is kept, and it is
// read at what it costs to receive it; so the bounds are on bytes and on time.
#pragma once

#include <algorithm>

#include "wire/limits.h"

namespace weir::wire {

struct UnreadBody {
  static constexpr base::Duration kMoment = 1s;  // where there is no time for more
  static constexpr base::Duration kQuiet = 5s;   // without a byte of it
  static constexpr base::Duration kMost = 30s;   // in all

  // Bytes behind the answer: a client that has got the limit wrong is mostly not far above it.
  static uint64_t most(const Limits& limits) { return 4 * limits.body; }
  // Whether it goes on, being answered since `since`, with its last byte of `last`.
  static bool in_time(base::Time now, base::Time since, base::Time last) {
    return now - since < kMost && now - std::max(since, last) < kQuiet;
  }
};

}  // namespace weir::wire
