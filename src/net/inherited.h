// InheritedSockets: listening sockets that the service manager hands to this process (sd_listen_fds(3)): those of a
// .socket unit, and those that an earlier process of the same service has left in the manager's descriptor store.
//
// A socket that outlives its process keeps what waits in its queue: clients that connect while one process ends and the
// next starts wait, and none is refused. One thread at a time.
#pragma once

#include <vector>

#include "net/address.h"
#include "net/fd.h"

namespace weir::net {

class InheritedSockets {
 public:
  InheritedSockets() = default;
  explicit InheritedSockets(std::vector<Fd> sockets);
  InheritedSockets(InheritedSockets&&) noexcept = default;
  InheritedSockets& operator=(InheritedSockets&&) noexcept = default;

  // Those that $LISTEN_PID and $LISTEN_FDS name: descriptors from 3 on, of this process alone. What does not listen is
  // closed. Once per process. Errors: INVALID_ARGUMENT where one of these descriptors is not open, or this process's
  // own: the manager has given fewer.
  static base::Result<InheritedSockets> from_environment();

  // One listens there, or at all addresses of that port, or at one of them where `endpoint` is all.
  bool holds(const Endpoint& endpoint) const;
  // Takes those that listen at `endpoint`: several where each shard of the earlier process had its own. They do not
  // block, and are closed by exec().
  std::vector<Fd> take(const Endpoint& endpoint);

  // Ends those that nobody took, since nobody would accept from them: whoever connects to them is refused from here on,
  // and the manager, which sees them hung up, forgets them. The log names their addresses.
  void end_rest();

 private:
  std::vector<Fd> sockets_;
};

}  // namespace weir::net
