// ClusterHandover: sessions that go where their client is, among the nodes of a cluster: src/cluster for src/session.
// It knows which shard of this server has which of them. Any thread.
//
// What is posted to the cluster's thread while mutex_ is held comes there in the order in which held_ and taking_ say
// it: a session is never released behind the back of a shard that has just taken it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster.h"
#include "session/handover.h"
#include "session/kept_bytes.h"

namespace weir::app {

class ClusterHandover final : public session::Handover {
 public:
  using Post = std::function<void(base::ShardId, std::function<void()>)>;

  // Before the server starts; all that is given outlives the shards.
  // `bytes`: of all sessions in the bucket, of which those of this kind may have a half by way of this node, and one
  // client an eighth: the rest is for sessions that stay with their node.
  void attach(cluster::Cluster& cluster, uint64_t bytes) { cluster_ = &cluster, bytes_ = bytes; }
  void post_by(Post post) { post_ = std::move(post); }

  // Callbacks of the cluster, on its thread. Another node asks for the session by leave(): `then` is told once nobody
  // here has it. Errors: NOT_FOUND (`whose` has no such session); UNAVAILABLE (worth another try).
  static base::Status accept(const std::string& state, const std::string& whose);
  void leave(const std::string& id, const std::string& whose, Done then);
  bool holds(const std::string& id) const;

  // session::Handover
  void keep_for(base::Duration life) override {
    cluster_->keep_sessions_for(life);
    kept_.set_limits(bytes_ / 8, bytes_ / 2);
  }
  uint64_t epoch() const override { return cluster_->epoch(); }
  void hold(base::SessionId id, std::string whose, base::ShardId shard, std::function<void()> leave) override;
  void save(base::SessionId id, std::string state, base::ShardId shard, Done then) override;
  void let_go(base::SessionId id) override;
  void end(base::SessionId id) override;
  void take(base::SessionId id, std::string whose, base::ShardId shard, Taken then) override;

 private:
  static constexpr size_t kMostWaiting = 8;                              // connections that ask for one session
  static constexpr base::Duration kPatience = std::chrono::seconds(10);  // of each

  // A session that this node has: `whose` it is has been read in its record, or it is a new one.
  struct Held {
    std::string whose;
    base::ShardId shard{};
    std::function<void()> leave;            // null: it was taken, and its shard has not been told yet
    std::map<uint64_t, Done> waiting = {};  // by number: to be told when it has been let go, or is over
  };
  enum class Asked : uint8_t { kNobody, kNotYours, kBusy, kWaits };
  Asked ask_shard(const std::string& key, Held& held, const std::string& whose, Done then);
  void give_up(const std::string& key, uint64_t number);
  void take_from_others(const std::string& key, const std::string& whose, base::ShardId shard, const Taken& then);
  std::vector<Done> forget(const std::string& key);

  cluster::Cluster* cluster_ = nullptr;
  Post post_;
  mutable std::mutex mutex_;
  uint64_t bytes_ = 0;
  std::map<std::string, Held> held_;                      // under mutex_, as the next two; by key
  std::set<std::pair<std::string, std::string>> taking_;  // key, and for whom: he may not be its client
  session::KeptBytes kept_;
  uint64_t last_waiting_ = 0;  // under mutex_
};

}  // namespace weir::app
