// Connection: what the parts of one connection share, whatever its version of HTTP.
#pragma once

#include "base/memory_ledger.h"
#include "wire/codec.h"

namespace weir::wire {

struct Connection {
  Connection(const CodecEnv& for_all, Wire& of_connection, const PeerInfo& who)
      : env(for_all), memory(env.slabs.ledger()), wire(of_connection), peer(who) {}

  bool overloaded(base::Overload step) const { return memory && memory->at_least(step); }

  const CodecEnv& env;
  base::MemoryLedger* const memory;  // of env.slabs, or null
  Wire& wire;
  const PeerInfo& peer;
};

}  // namespace weir::wire
