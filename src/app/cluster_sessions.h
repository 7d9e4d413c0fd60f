// ClusterSessions: the sessions and stored responses of this server among those of the other nodes: src/cluster for
// src/session, and which node calls are handed on to. Any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "app/cluster_handover.h"
#include "app/cluster_peers.h"
#include "bus/catalog.h"
#include "cluster/cluster.h"
#include "engines/forward/node_relay.h"
#include "session/other_nodes.h"
#include "session/shared_records.h"

namespace weir::app {

class ClusterSessions final : public session::OtherNodes, public session::SharedRecords, public session::HandsOver {
 public:
  using GetCatalog = std::function<std::shared_ptr<const bus::Catalog>()>;
  using Post = std::function<void(base::ShardId, std::function<void()>)>;

  // `call_key`: Secrets::call_key; `tls`: of connections to nodes, or null.
  ClusterSessions(const std::string& name, std::string call_key, std::shared_ptr<const net::LiveTls> tls)
      : tag_(session::tag_of_node(name)), targets_(std::move(call_key), std::move(tls)) {}
  // Before the server starts; all that is given outlives the shards.
  // `bytes`: ClusterHandover::attach().
  void attach(cluster::Cluster& cluster, GetCatalog catalog, uint64_t bytes) {
    cluster_ = &cluster, catalog_ = std::move(catalog);
    handover_.attach(cluster, bytes);
  }
  void post_by(Post post) { post_ = post, handover_.post_by(std::move(post)); }

  // On the cluster's thread.
  void update(const cluster::Members& members);
  base::Status can_take(const std::string& state) const;

  const forward::NodeTargets& targets() const { return targets_; }
  ClusterPeers& peers() { return peers_; }
  cluster::Cluster& cluster() { return *cluster_; }

  // session::HandsOver
  ClusterHandover& handover() override { return handover_; }
  // session::OtherNodes
  void keep_for(base::Duration life) override { cluster_->keep_sessions_for(life); }
  session::NodeTag tag() const override { return tag_; }
  uint64_t epoch() const override { return cluster_->epoch(); }
  void save(base::SessionId id, std::string state, base::ShardId shard, OtherNodes::Done then) override;
  void end(base::SessionId id) override { cluster_->end_session(session::text(id)); }
  std::optional<Place> guess(base::SessionId id) const override;
  std::optional<Place> node_with(std::string_view model, std::span<const std::string> tried) const override;
  void find(base::SessionId id, std::string unreachable, base::ShardId shard, OtherNodes::Found then) override;
  // session::SharedRecords
  void keep_records_for(base::Duration life) override { cluster_->keep_records_for(life); }
  void keep_record(const std::string& owner, const std::string& id, std::string record, base::ShardId shard,
                   SharedRecords::Done then) override;
  void read_record(const std::string& owner, const std::string& id, base::ShardId shard, Read then) override;
  void forget_record(const std::string& owner, const std::string& id) override;
  void erase_record(const std::string& owner, const std::string& id, base::ShardId shard,
                    SharedRecords::Done then) override;

 private:
  static constexpr size_t kMostMoved = 65536;

  std::optional<Place> node_for(const std::string& state) const;
  std::optional<Place> node_named(const std::string& name) const;
  void note_moved(base::SessionId id, const std::string& node);

  const session::NodeTag tag_;
  forward::NodeTargets targets_;
  ClusterPeers peers_;
  ClusterHandover handover_;
  cluster::Cluster* cluster_ = nullptr;
  GetCatalog catalog_;
  Post post_;
  mutable std::mutex mutex_;
  std::shared_ptr<const cluster::Members> members_ = std::make_shared<cluster::Members>();  // under mutex_, as these:
  std::map<base::SessionId, std::string> moved_;  // nodes of sessions that another one has opened
};

}  // namespace weir::app
