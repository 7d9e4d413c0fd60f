// OutputConnection: what the parts of one connection share whose answers leave in one stream of bytes (HTTP/1,
// baidu_std): its output, whether the peer takes it, and its memory.
#pragma once

#include "base/memory_ledger.h"
#include "base/stepped_charge.h"
#include "wire/answer_flow.h"
#include "wire/body_memory.h"
#include "wire/connection.h"
#include "wire/output.h"
#include "wire/rate_floor.h"

namespace weir::wire {

struct OutputConnection : Connection {
  OutputConnection(const CodecEnv& for_all, Wire& of_connection, const PeerInfo& who)
      : Connection(for_all, of_connection, who),
        heads(memory, base::MemoryKind::kInput, 0, owner_of_heads(env.bodies, peer.client.get())),
        idle_since(wire.now()) {}

  // There is output, or the end, and nobody may be looking.
  void notify_output() {
    if (!busy) wire.output_ready();
  }
  // The socket has taken so many bytes of the output.
  void taken(size_t n) {
    output.consume(n);
    floor.written(n);
    if (output.empty()) floor.stop();
  }
  // From tick(): the peer takes its answers, for which `held` bytes are kept, too slowly, whatever it was sent.
  bool takes_too_little(base::Time now, uint64_t held) {
    if (memory) memory->update_overload();
    if (output.empty()) return floor.stop(), false;
    floor.check_socket(wire.undelivered());
    floor.start(now);
    return floor.below(now, drain_floor(env.limits, held, env.slabs));
  }

  Output output;
  OutputFloor floor;
  base::SteppedCharge heads;  // of requests, and input that cannot be used yet
  bool draining = false;
  bool busy = false;  // inside feed(), consumed() or tick(): the caller looks at the output afterwards
  base::Time idle_since;
};

}  // namespace weir::wire
