#include "app/last_calls.h"

#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

#include "app/serve.h"
#include "base/log.h"

namespace weir::app {

void end_jobs(const std::vector<std::unique_ptr<ShardServer>>& shard_servers) {
  for (auto& server : shard_servers) server->end_jobs();
  for (auto& server : shard_servers) {
    std::promise<void> ended;
    server->shard().post([&ended] { ended.set_value(); });
    ended.get_future().get();
  }
}

void finish_calls(const std::vector<std::unique_ptr<ShardServer>>& shard_servers) {
  auto end = std::chrono::steady_clock::now() + kLastCalls;
  for (auto& server : shard_servers) {
    for (;;) {
      std::promise<uint32_t> open;
      server->shard().post([&] {
        server->bus().close();  // or a session that expires now would have the engine told
        open.set_value(server->bus().in_flight());
      });
      if (open.get_future().get() == 0) break;
      if (std::chrono::steady_clock::now() > end) {
        base::log::warning("an engine is still busy; leaving it");
        std::_Exit(int(Exit::kOk));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

void end_loads(models::Repository& repository, base::Duration most) {
  if (repository.stop_within(most)) return;
  base::log::warning("a model is still being loaded; leaving it");
  std::_Exit(int(Exit::kOk));
}

}  // namespace weir::app
