// RequestFeed: the access log, live, for whoever follows it: GET /console/v1/requests, as Server-Sent Events.
//
// Each event's data is a line of the access log (access_log.h); event "dropped" has {"dropped":n}: so many that the
// follower had asked for were left out, because it has not read fast enough, or more came than it takes. Nothing of
// bodies. Parameters: request_filter.h, and
//
//   most=500   lines a second of each shard, in slices of kEvery; failures have as many for themselves, so that they
//              are told among very many requests that went well. 1 to 100000; without it kUsualMost
//
// Followers that ask for the same are a group: a shard makes a request's line once for all groups, gathers the events
// of a group once, and hands the same bytes to each follower, in one write every kEvery. Where nobody follows a request
// costs the look at one atomic; what is beyond `most` costs the filter alone.
//
//   shard of a request: finished() → filter of each group → events of the group → every kEvery: post
//   shard of a follower: deliver() → its Exchange
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
  static constexpr base::Duration kEvery = std::chrono::milliseconds(100);
  static constexpr uint32_t kUsualMost = 10'000;
  static constexpr size_t kMostGathered = 512 << 10;  // bytes that a shard gathers between two sendings, of all groups
  static constexpr size_t kMostOnTheWay = 1 << 20;    // bytes of a shard's batches to one other
  static constexpr size_t kMostBacklog = 256 << 10;   // bytes that a follower has not read

  RequestFeed(uint32_t shards, Post post);
  ~RequestFeed();

  // One shard's side, on its thread.
  class ShardFeed;
  std::unique_ptr<ShardFeed> on_shard(base::ShardId shard, base::Env& env, wire::Router& router);

 private:
  struct Group;
  struct Batch;
  struct Arrivals;
  std::shared_ptr<Group> join(const RequestFilter& filter, uint32_t most, base::ShardId shard);
  void leave(const std::shared_ptr<Group>& group, base::ShardId shard);

  std::vector<Arrivals> by_shard_;
  const Post post_;
  std::mutex mutex_;                            // taken when somebody comes or goes, never for a request
  std::vector<std::shared_ptr<Group>> groups_;  // under mutex_
  std::atomic<uint64_t> version_{0};            // of groups_
};

class RequestFeed::ShardFeed final : public wire::Observer, private wire::Service {
 public:
  ShardFeed(RequestFeed& feed, base::ShardId shard, base::Env& env, wire::Router& router);
  ~ShardFeed();

  void finished(const wire::Exchange& exchange) override;
  void rejected(std::string_view reason, const wire::PeerInfo& peer) override;
  // The server is going: what was gathered is sent, and every stream of this shard ends.
  void drain();
  size_t followers() const { return followers_.size(); }

 private:
  class Follower;
  struct Gathered;
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  bool anybody_follows();
  template <class Line>
  void gather(const wire::RequestRecord& record, base::Duration took, const Line& line);
  void send();
  void send_to(size_t shard, Gathered& gathered, const std::shared_ptr<const Batch>& batch);
  void deliver(const Batch& batch, uint64_t lost);
  void keep_alive();
  void leave(const Follower& follower);

  RequestFeed& feed_;
  const base::ShardId shard_;
  base::Env& env_;
  std::vector<Gathered> gathered_;  // one of each group, as of known_
  uint64_t known_ = 0;              // the version of the groups
  std::string line_, event_;        // of the request at hand
  std::vector<Follower*> followers_;
  base::TimerId alive_ = base::TimerId::kNone, send_ = base::TimerId::kNone;
  bool draining_ = false;
};

}  // namespace weir::ops
