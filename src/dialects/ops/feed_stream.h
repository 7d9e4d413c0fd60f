// How the console's live feeds begin the stream of one who follows (Server-Sent Events).
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/client.h"
#include "base/status.h"
#include "wire/exchange.h"

namespace weir::ops {

inline constexpr size_t kMostFollowers = 16;  // of one feed on one shard; more are refused with 503

// UNAVAILABLE where a shard's feed takes no further follower. `own`: how many of the `followers` are of the same
// client: once half of the places are taken, one client has a quarter of them (base::ShareRule), so that it cannot keep
// the others out.
base::Status may_follow(size_t followers, size_t own, const base::Client* client, bool draining);
// The client whose follower it would be; null: nobody counts.
const base::Client* client_of(const wire::Exchange& exchange);
// How many of the followers, which have exchange(), are that client's.
template <class Followers>
size_t count_own(const Followers& followers, const base::Client* client) {
  return size_t(std::count_if(followers.begin(), followers.end(),
                              [&](const auto* each) { return client && client_of(each->exchange()) == client; }));
}
// Sends the head, and a comment by which the follower knows that it follows.
void open_feed(wire::Exchange& exchange);

}  // namespace weir::ops
