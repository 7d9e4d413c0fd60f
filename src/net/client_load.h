// ClientLoad: for which clients one shard has worked much of late. They come behind the others, so that who asks for
// little does not wait for all that somebody has heaped up on a thousand connections.
//
// The CPU time that was spent for each is halved every kPeriod, as is that of all. A client is heavy while a quarter of
// it, and kLeast, was its own: on a machine that is busy with something else that is as true as on an idle one. The
// table holds those of which most is known: who comes when it is full takes the place of the lightest, with its time,
// so that nobody hides in a crowd. Clients that are not limited (trusted proxies, who ask for many others) are never
// heavy. The shard's thread only.
#pragma once

#include <array>
#include <cstddef>

#include "base/client.h"
#include "base/env.h"

namespace weir::net {

// A line of those who wait for a shard (net/lanes.h): others go first, as long as a light one waits.
enum class Lane : bool { kLight, kHeavy };

class ClientLoad {
 public:
  static constexpr base::Duration kPeriod = std::chrono::milliseconds(100);
  static constexpr base::Duration kLeast = std::chrono::milliseconds(5);
  static constexpr size_t kClients = 16;

  // The shard has worked so long for a connection of `client`; null: nobody counts.
  void add(const base::ClientRef* client, base::Duration spent, base::Time now);
  Lane lane(const base::Client* client) const;

 private:
  struct Known {
    base::ClientRef client;
    base::Duration spent{0};
  };
  void decay(base::Time now);
  bool is_heavy(const Known& one) const { return one.spent >= kLeast && one.spent >= all_ / 4; }

  std::array<Known, kClients> known_;
  base::Duration all_{0};
  base::Time since_{};  // the begin of the period
  bool heavy_ = false;  // one of them is
};

}  // namespace weir::net
