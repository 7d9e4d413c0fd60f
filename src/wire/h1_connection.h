// H1Connection: what the parts of one HTTP/1 connection share: its output, its memory, and where it is on its way to
// its end.
#pragma once

#include <string>

#include "base/stepped_charge.h"
#include "wire/body_memory.h"
#include "wire/connection.h"
#include "wire/output.h"

namespace weir::wire {

struct H1Connection : Connection {
  H1Connection(const CodecEnv& for_all, Wire& of_connection, const PeerInfo& who)
      : Connection(for_all, of_connection, who),
        heads(memory, base::MemoryKind::kInput, 0, owner_of_heads(env.bodies, peer.client.get())),
        idle_since(wire.now()) {}

  // There is output, or the end, and nobody may be looking.
  void notify_output() {
    if (!busy) wire.output_ready();
  }

  Output output;
  base::SteppedCharge heads;  // of requests, and input that cannot be used yet
  bool draining = false;
  bool last = false;     // no request is taken after the one that is being read
  bool closing = false;  // nothing is read any more, nor written behind what is in the output
  bool busy = false;     // inside feed(), consumed() or tick(): the caller looks at the output afterwards
  base::Time idle_since;
  base::Time moved = base::kNever;  // when a piece of body last came or an answer last went
};

}  // namespace weir::wire
