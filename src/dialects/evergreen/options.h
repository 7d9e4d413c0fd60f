// The settings of the dialect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/ids.h"
#include "dialects/evergreen/graph/node.h"

namespace weir::session {
class Handover;
}

namespace weir::wire {
class BodyMemory;
class Offload;
}  // namespace weir::wire

namespace weir::evergreen {

struct References {
  // Folders below which `file:` references are looked for, in this order; empty: `file:` is off.
  std::vector<std::string> file_roots;
  uint64_t max_bytes = 32 << 20;  // of one reference
};

struct Options {
  bool websocket = true;
  References references;
  GraphLimits graph;
  uint64_t steps_per_turn = 4096;               // TurnBudget of a shard: a few milliseconds
  uint64_t tenant_bytes = uint64_t(512) << 20;  // content of all sessions of one host's clients
  uint64_t total_bytes = uint64_t(1) << 30;     // and of all
  uint32_t max_actions = 64;                    // of one session that models work on at once
  uint64_t max_message = 16 << 20;              // of one WebSocket message or NDJSON line
  base::Duration max_age = std::chrono::hours(24);
  base::Duration idle = std::chrono::minutes(10);  // without a message of either side, while nothing runs
  wire::BodyMemory* bodies = nullptr;              // schedules the slabs of this shard; null: in no order
  wire::Offload* offload = nullptr;                // reads long JSON; null: the shard does
  // Sessions that a client asks to be kept, for other nodes of a cluster: how long at least when it has left.
  base::Duration kept = std::chrono::minutes(30);
  session::Handover* handover = nullptr;  // null: this node is alone
  base::ShardId shard{0};
  size_t most_searches = 128;  // for sessions at other nodes, of one client, on this shard
};

}  // namespace weir::evergreen
