// RequestFeed: the access log, live, for whoever follows it: GET /console/v1/requests, as Server-Sent Events.
//
// Each event's data is a line of the access log (access_log.h); event "dropped" has {"dropped":n}, where a follower has
// not read fast enough or the server had too much to tell. Nothing of bodies. Parameters: request_filter.h. Where
// nobody follows a request costs the look at one atomic.
//
//   shard of a request: finished() → batch of the turn → post → shard of a follower: filter → its Exchange
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/ids.h"
#include "dialects/ops/request_filter.h"
#include "wire/router.h"

namespace weir::ops {

// The part that all shards share. Any thread.
class RequestFeed {
 public:
  using Post = std::function<void(base::ShardId, std::function<void()>)>;  // runs work on a shard's thread
  static constexpr size_t kMostOnTheWay = 1 << 20;                         // bytes of a shard's batches to one other
  static constexpr size_t kMostBacklog = 256 << 10;                        // bytes that a follower has not read

  RequestFeed(uint32_t shards, Post post);
  ~RequestFeed();

  // One shard's side, on its thread.
  class ShardFeed;
  std::unique_ptr<ShardFeed> on_shard(base::ShardId shard, base::Env& env, wire::Router& router);

 private:
  struct Batch;
  struct ShardFollowers;  // one shard's followers, as the others know of them
  std::vector<ShardFollowers> by_shard_;
  const Post post_;
  std::atomic<uint32_t> followers_{0};
};

class RequestFeed::ShardFeed final : public wire::Observer, private wire::Service {
 public:
  ShardFeed(RequestFeed& feed, base::ShardId shard, base::Env& env, wire::Router& router);
  ~ShardFeed();

  void finished(const wire::Exchange& exchange) override;
  void rejected(std::string_view reason, const wire::PeerInfo& peer) override;
  // At the end of each turn: hands over what this turn had to tell.
  void flush();
  // The server is going: every stream ends.
  void drain();
  size_t followers() const { return followers_.size(); }

 private:
  class Follower;
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  void deliver(const Batch& batch);
  void keep_alive();
  Batch& batch();
  void leave(const Follower& follower);

  RequestFeed& feed_;
  const base::ShardId shard_;
  base::Env& env_;
  std::shared_ptr<Batch> batch_;  // of this turn; null: nothing yet
  std::vector<Follower*> followers_;
  base::TimerId timer_ = base::TimerId::kNone;
  bool draining_ = false;
};

}  // namespace weir::ops
