// The beginning of a follower's stream (Server-Sent Events), for the live feeds of the console.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/client.h"
#include "base/status.h"
#include "wire/exchange.h"

namespace weir::ops {

inline constexpr size_t kMostFollowers = 16;  // of one feed on one shard; more are refused with 503

// Whether a shard's feed takes one more follower; else UNAVAILABLE. `own`: how many of the `followers` are of the same
// client. Once half of the places are taken, one client may have a quarter of them (base::ShareRule), so that it cannot
// keep the others out.
base::Status may_follow(size_t followers, size_t own, const base::Client* client, bool draining);
// The client of a follower; null: its followers are not counted.
const base::Client* client_of(const wire::Exchange& exchange);
// How many of the followers are the client's. They have a member exchange().
template <class Followers>
size_t count_own(const Followers& followers, const base::Client* client) {
  return size_t(std::count_if(followers.begin(), followers.end(),
                              [&](const auto* each) { return client && client_of(each->exchange()) == client; }));
}
// Sends the head, and a comment by which the follower knows that it follows.
void open_feed(wire::Exchange& exchange);

}  // namespace weir::ops
