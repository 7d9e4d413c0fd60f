// ClusterPeers: what nodes ask each other directly (cluster/peers.h), as a gRPC call from a shard of one server to a
// shard of the other. PeerMethod: the shard that is asked.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "cluster/cluster.h"
#include "engines/forward/node_relay.h"
#include "net/shard.h"
#include "wire/rpc.h"

namespace weir::app {

// The relay belongs to its shard; ask() on any thread.
class ClusterPeers {
 public:
  // Before the shards start.
  void ask_by(net::Shard& shard, forward::NodeRelay& relay, std::string key);
  // `then` is called on the shard, or never where it ends before.
  void ask(const std::string& address, std::string request, cluster::Peers::Then then);

 private:
  net::Shard* shard_ = nullptr;
  forward::NodeRelay* relay_ = nullptr;
  std::string key_;
};

// On its shard's thread.
class PeerMethod final : public wire::RpcMethod {
 public:
  // `key`: Secrets::call_key; who asks has it, where there is one.
  PeerMethod(net::Shard& shard, cluster::Cluster& cluster, std::string key)
      : shard_(shard), cluster_(cluster), key_(std::move(key)) {}
  void add_to(wire::RpcServer& rpcs);

  void call(wire::Rpc& rpc, base::Bytes message) override;

 private:
  class Waiting;
  void answer(uint64_t number, std::string answer);

  net::Shard& shard_;
  cluster::Cluster& cluster_;
  const std::string key_;
  std::unordered_map<uint64_t, wire::Rpc*> waiting_;  // without those whose caller has left
  uint64_t last_ = 0;
  size_t under_way_ = 0;  // those whose caller has left among them
};

}  // namespace weir::app
