// LiveFeed: what the console shows, once a second, for whoever follows: GET /console/v1/live, as Server-Sent Events.
//
// One thread makes each moment's events (live_state.h) for all followers of all shards; while nobody follows it sleeps.
// It makes a "state" only for moments at which somebody has none: who comes, or reads again. Followers who may see the
// same models, and the log or not, are one Audience and get the same bytes.
// A shard does no more than hand finished bytes to its followers: the first event of each is "state", those behind it
// are "change". One that does not read is left out, and gets a "state" when it reads again.
//
//   thread: Source → LiveState → Moment → post → shard of a follower → its Exchange
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "base/ids.h"
#include "dialects/ops/console/live_state.h"
#include "wire/router.h"

namespace weir::ops {

// The part that all shards share.
class LiveFeed {
 public:
  using Post = std::function<void(base::ShardId, std::function<void()>)>;  // runs work on a shard's thread
  using ReadSource = std::function<LiveState::Source()>;                   // any thread
  static constexpr base::Duration kEvery = std::chrono::seconds(1);
  static constexpr size_t kMostBacklog = 256 << 10;  // bytes that a follower has not read

  LiveFeed(uint32_t shards, Post post, ReadSource read_source);
  ~LiveFeed();

  // Begins the thread; until then somebody else calls turn(). Once.
  void start();
  // Ends it. Before what `read_source` and `post` use goes; any thread, once or more often.
  void stop();
  // Makes one moment's events and posts them, if anybody follows.
  void turn();

  // One shard's side, on its thread.
  class ShardLive;
  std::unique_ptr<ShardLive> on_shard(base::ShardId shard, wire::Router& router);

 private:
  struct Moment;
  struct ShardFollowers;  // one shard's followers, as the thread knows of them
  struct Audience {
    LiveState::Warnings warnings = LiveState::Warnings::kHidden;
    std::shared_ptr<const base::ModelScope> models;  // null: all

    std::string key() const;
  };
  struct Present {
    Audience audience;
    uint32_t followers = 0;
  };
  bool wanted() const;
  void run();
  void come(ShardFollowers& here, const Audience& audience);
  void leave(ShardFollowers& here, const std::string& audience);
  std::map<std::string, Present> present();

  std::vector<ShardFollowers> by_shard_;
  const Post post_;
  const ReadSource read_source_;
  std::unique_ptr<const LiveState> last_;  // the thread's, as the number
  uint64_t number_ = 0;
  std::atomic<bool> behind_{false};  // somebody waits for a "state"

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false, arrived_ = false;  // under mutex_
  std::map<std::string, Present> present_;   // under mutex_; by Audience::key()
  std::thread thread_;
};

class LiveFeed::ShardLive final : private wire::Service {
 public:
  ShardLive(LiveFeed& feed, base::ShardId shard, wire::Router& router);
  ~ShardLive();

  // The server is going: every stream ends.
  void drain();
  size_t followers() const { return followers_.size(); }

 private:
  friend class LiveFeed;
  class Follower;
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  void deliver(const Moment& moment);
  void leave(const Follower& follower);

  LiveFeed& feed_;
  const base::ShardId shard_;
  wire::Router& router_;
  std::vector<Follower*> followers_;
  bool draining_ = false;
};

}  // namespace weir::ops
