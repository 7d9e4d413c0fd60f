// The Inbox over several token lanes of one model, each on a device of its own, with keys and values of its own.
//
// A Call goes to the lane that has the fewest. Among equals it goes by the first tokens of its sequence, so that who
// comes again with the same beginning finds it cached. A session stays with the lane of its first Call, which keeps its
// keys and values; a fork is another session, and computes what it has in common with the first one again if it comes
// to another lane.
#pragma once

#include <memory>
#include <vector>

#include "generation/lane.h"

namespace weir::generation {

// One lane is given back as it is.
std::unique_ptr<msg::Inbox> make_token_load_balancer(std::vector<std::unique_ptr<TokenInbox>> lanes);

}  // namespace weir::generation
