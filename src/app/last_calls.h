// The end of the Calls and of the load that are under way when the server stops.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "app/shard_server.h"
#include "models/repository.h"

namespace weir::app {

inline constexpr auto kLastLoad = std::chrono::seconds(5);   // for engines that cannot stop a load
inline constexpr auto kLastCalls = std::chrono::seconds(5);  // for engines to notice that nobody waits any more

// Ends the jobs of all shards (ShardServer::end_jobs) and waits for that. Before the cluster stops: they keep records
// for its other nodes. The shards run; from another thread than theirs.
void end_jobs(const std::vector<std::unique_ptr<ShardServer>>& shard_servers);
// Waits until no shard has a Call in flight. Calls whose clients are gone leave at their engine's next step. Where a
// step does not end within kLastCalls, the process ends here with exit code 0. The shards run; from another thread than
// theirs.
void finish_calls(const std::vector<std::unique_ptr<ShardServer>>& shard_servers);
// Ends the repository; where the load of a model does not end within `most`, the process ends here with exit code 0.
void end_loads(models::Repository& repository, base::Duration most);

}  // namespace weir::app
