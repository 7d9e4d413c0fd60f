// FloodPenalty: the clients of one shard whose connections end for floods (Codec::flooded()), one after the other.
//
// Ending a flood costs the shard more than a client pays for the next connection, so a client that does nothing else is
// not let in for a while: after kAllowed floods within kWindow its new connections are closed unread until the window
// ends. Connections that it has are served. Clients that are not limited (trusted proxies) are never refused.
//
// The table is small and holds the latest offenders: one that is dropped for want of room begins with no floods again.
// While there are no floods it is empty, and costs a comparison per connection. The shard's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/client.h"
#include "base/env.h"

namespace weir::net {

class FloodPenalty {
 public:
  static constexpr uint32_t kAllowed = 20;
  static constexpr base::Duration kWindow = std::chrono::seconds(10);
  static constexpr size_t kClients = 64;

  // A connection of `client` has ended for a flood. Null: nobody counts. Returns true for the one with which the
  // penalty begins.
  bool add(const base::ClientRef& client, base::Time now);
  // Whether a new connection of `client` is to be closed.
  bool applies(const base::Client* client, base::Time now) const;

 private:
  struct Offender {
    base::ClientRef client;
    base::Time since;  // the begin of its window
    uint32_t floods = 0;
  };
  Offender& offender(const base::ClientRef& client, base::Time now);

  std::vector<Offender> offenders_;
};

}  // namespace weir::net
