// ClientLoad: which clients have used much of one shard's CPU time lately. They are served behind the others, so that a
// client with few requests does not wait for all that another one has queued on a thousand connections.
//
// The CPU time spent for each client, and for all together, is halved every kPeriod. A client is heavy while its own
// time is at least kLeast and a quarter of the total. CPU time is counted, not elapsed time, so this holds on a busy
// machine, too. The table has kClients entries (the space-saving sketch of Metwally et al.): a client that finds it
// full replaces the lightest one and inherits its time, so that a client cannot hide among many others. Clients that
// are not limited (trusted proxies, which ask for many clients) are never heavy. The shard's thread only.
#pragma once

#include <array>
#include <cstddef>

#include "base/client.h"
#include "base/env.h"

namespace weir::net {

// The line of a WeightedQueue (net/weighted_queue.h) in which a client waits for the shard.
enum class LoadClass : bool { kLight, kHeavy };

class ClientLoad {
 public:
  static constexpr base::Duration kPeriod = std::chrono::milliseconds(100);
  static constexpr base::Duration kLeast = std::chrono::milliseconds(5);
  static constexpr size_t kClients = 16;

  // The shard has worked so long for a connection of `client`; null: nobody counts.
  void add(const base::ClientRef* client, base::Duration spent, base::Time now);
  LoadClass load_class(const base::Client* client) const;

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
