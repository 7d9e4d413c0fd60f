// How a session goes to the node that its client has come to: who is asked to let it go, and how this node answers when
// another one asks. On the cluster's thread.
#pragma once

#include <functional>
#include <string>

#include "cluster/kept_sessions.h"
#include "cluster/loop.h"
#include "cluster/membership.h"
#include "cluster/peer_answers.h"
#include "cluster/peers.h"

namespace weir::cluster {

using AcceptSession = std::function<base::Status(const std::string& state, const std::string& whose)>;

// For the session `id`, which is to be `whose`. All that is given outlives it.
KeptSessions::Mover make_mover(const Membership& membership, Peers& peers, const AcceptSession& accept,
                               const std::string& id, const std::string& whose);
// Answers of `leave` come on any thread; those of what is returned on the loop's. Null stays null.
PeerAnswers::Leave leave_on(Loop& loop, const PeerAnswers::Leave& leave);

}  // namespace weir::cluster
