// Shard: one thread, one loop, and everything that lives on it: listeners, connections, a bus, timers.
//
// A turn of the loop runs what is ready (bounded), then the turn hooks in the order they were added (the bus delivers
// its mail here), then writes each connection that has output: one write per connection and turn. A turn of more than
// 5 ms begins nothing more: ready sockets, due timers, posted work and output are for the next one, in their order.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/ids.h"
#include "base/memory_ledger.h"

namespace weir::net {

enum class Pin : bool { kNo, kYes };

class Shard {
 public:
  Shard(base::ShardId id, Pin pin);
  ~Shard();

  base::ShardId id() const;
  base::Env& env();  // this shard's clock, timers and randomness; this shard's thread only
  // Runs on this shard's thread, soon. Any thread.
  void post(std::function<void()> work);
  // Before start(), or on this shard's thread.
  void at_turn_end(std::function<void()> hook);

  // The turn under way should begin nothing more. This shard's thread.
  bool turn_is_long() const;

  // How long the loop looks for work before it sleeps. Waking a core that sleeps takes longer than most requests; not
  // to sleep costs the core. Before start(); 0 unless set.
  void spin(base::Duration time);

  // TLS of connections that we open (ClientConn, WebFetcher) is charged to that ledger, and refused where there is
  // no room; nobody counts unless it is set. Before start(); it outlives the shard.
  void charge(base::MemoryLedger& memory);

  void start();  // the thread
  void stop();   // asks the loop to end; any thread
  void join();

  struct Parts;  // net's own
  Parts& parts();

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::net
