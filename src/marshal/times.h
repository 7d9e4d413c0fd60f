// What a Call's Timeline says to the access log and the metrics: how long it waited, how long it ran.
#pragma once

#include "msg/call.h"

namespace weir::marshal {

struct Spent {
  base::Duration queue{0}, compute{0};  // zero where the Timeline does not say
};

// `finished`: Timeline::finished of a Call that has come back; the time now while its Inbox still has it, and writes.
inline Spent spent(const msg::Timeline& t, base::Time finished) {
  auto between = [](base::Time from, base::Time to) {
    return from == base::kNever || to == base::kNever ? base::Duration{0} : to - from;
  };
  return {between(t.queued, t.started), between(t.started, finished)};
}

}  // namespace weir::marshal
