// Shards without threads, and requests that have ended: for tests of what the console asks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "support/fake_wire.h"
#include "wire/router.h"

namespace weir::ops {

// Shards whose posts run when the test says so.
struct Shards {
  base::FakeEnv env;
  std::deque<std::pair<base::ShardId, std::function<void()>>> posts;
  std::deque<wire::Router> routers;
  std::function<void(base::ShardId, std::function<void()>)> post() {
    return [this](base::ShardId shard, std::function<void()> work) { posts.emplace_back(shard, std::move(work)); };
  }
  void run() {
    while (!posts.empty()) {
      auto work = std::move(posts.front().second);
      posts.pop_front();
      work();
    }
  }
  void ask(support::FakeExchange& x, size_t shard) {
    x.time = env.now();
    (void)routers[shard].begin(x);
  }
  void leave(support::FakeExchange& x, size_t shard) {
    x.close(false);
    routers[shard].closed(x);
  }
};

// A request that has ended.
inline std::unique_ptr<support::FakeExchange> request(base::FakeEnv& env, std::string model,
                                                      base::Duration took = std::chrono::milliseconds(1),
                                                      base::Code code = base::Code::kOk) {
  auto x = std::make_unique<support::FakeExchange>("POST", "/v2/models/m/infer");
  x->time = env.now();
  auto& record = x->record();
  record.protocol = "oip-rest", record.model = std::move(model), record.status = base::http_status(code);
  record.code = code, record.request_id = "r-" + record.model;
  record.began = env.now() - took;
  return x;
}

}  // namespace weir::ops
