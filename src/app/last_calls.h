// The end of the Calls that are under way when the server stops.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "app/shard_server.h"

namespace weir::app {

inline constexpr auto kLastCalls = std::chrono::seconds(5);  // for engines to notice that nobody waits any more

// Waits until no shard has a Call in flight. Calls whose clients are gone leave at their engine's next step. Where a
// step does not end within kLastCalls, the process ends here with exit code 0. The shards run; from another thread than
// theirs.
void finish_calls(const std::vector<std::unique_ptr<ShardServer>>& shard_servers);

}  // namespace weir::app
