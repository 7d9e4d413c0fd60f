// How the console's live feeds begin the stream of one who follows (Server-Sent Events).
#pragma once

#include <cstddef>

#include "base/status.h"
#include "wire/exchange.h"

namespace weir::ops {

inline constexpr size_t kMostFollowers = 16;  // of one feed on one shard; more are refused with 503

// UNAVAILABLE where a shard's feed takes no further follower.
base::Status may_follow(size_t followers, bool draining);
// Sends the head, and a comment by which the follower knows that it follows.
void open_feed(wire::Exchange& exchange);

}  // namespace weir::ops
