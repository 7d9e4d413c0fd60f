// An Inbox that spreads Calls over several token lanes of one model. Each lane has a device and a KV cache of its own.
//
// A Call goes to the lane with the fewest Calls. Among equals its first tokens choose the lane, so that a prompt with
// the same beginning finds it in that lane's prefix cache. The Calls of a session stay on the lane of its first Call,
// which keeps its keys and values. A fork is a session of its own: on another lane it computes the common tokens again.
#pragma once

#include <memory>
#include <vector>

#include "generation/lane.h"

namespace weir::generation {

// Returns a single lane as it is. `lanes` must not be empty.
std::unique_ptr<msg::Inbox> make_token_load_balancer(std::vector<std::unique_ptr<TokenInbox>> lanes);

}  // namespace weir::generation
