#include "cluster/movers.h"

#include <utility>

namespace weir::cluster {

using base::Status;

// One that is not among the nodes that are known is asked by nobody: it is looked for until it is there, or gone.
KeptSessions::Mover make_mover(const Membership& membership, Peers& peers, const AcceptSession& accept,
                               const std::string& id, const std::string& whose) {
  KeptSessions::Mover out;
  out.accept = [&accept, whose](const std::string& state) { return accept(state, whose); };
  out.ask = [&membership, &peers, id, whose](const std::string& owner, Ownership::Done then) {
    std::string address;
    for (const Node* node : membership.nodes())
      if (node->id == owner) address = node->address;
    if (address.empty()) return then(base::failure(base::Code::kUnavailable, "its address is not known"));
    peers.ask(address, write_request({PeerRequest::What::kLeave, id, 0, whose}),
              [then = std::move(then)](const base::Result<std::string>& answer) {
                if (!answer) return then(answer.error());
                auto read = read_answer(*answer);
                then(read ? Status() : read.error());
              });
  };
  return out;
}

PeerAnswers::Leave leave_on(Loop& loop, const PeerAnswers::Leave& leave) {
  if (!leave) return {};
  return [&loop, &leave](const std::string& id, const std::string& whose, std::function<void(Status)> then) {
    leave(id, whose,
          [&loop, then = std::move(then)](const Status& status) { loop.post([then, status] { then(status); }); });
  };
}

}  // namespace weir::cluster
