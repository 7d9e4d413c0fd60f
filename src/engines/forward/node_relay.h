// NodeTargets: the nodes that calls of clients may be handed on to, of all shards. NodeRelay: the connections of one
// shard to them. Each client's calls have a connection of their own there: streams that a client has taken and does not
// read, windows that it leaves full, and resets that end a connection, are its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "engines/forward/origin_conn.h"
#include "net/shard.h"
#include "wire/relay.h"

namespace weir::forward {

// Any thread, but for set().
class NodeTargets {
 public:
  // `key` and `tls`: as Directory has them.
  explicit NodeTargets(std::string key, std::shared_ptr<const net::LiveTls> tls = nullptr)
      : key_(std::move(key)), tls_(std::move(tls)) {}

  // These are there now, by URL; those that stay are the same Targets. Looks names up, which blocks: no shard's thread.
  void set(const std::vector<std::string>& urls);
  const std::string& key() const { return key_; }
  // Null: it is not there.
  std::shared_ptr<Target> find(const std::string& url) const;

 private:
  const std::string key_;
  const std::shared_ptr<const net::LiveTls> tls_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Target>> targets_;  // under mutex_
};

// On the shard's thread, and destroyed when that has ended, behind all calls.
class NodeRelay final : public wire::Relay {
 public:
  static constexpr uint64_t kLargestMessage = uint64_t(64) << 20;
  // Clients of one node that have a connection of their own; all further ones share kSharedLanes.
  static constexpr size_t kMostClients = 64, kSharedLanes = 8;

  // Says in fields for whom the call is.
  using Introduce = std::function<void(const wire::Request& request, wire::Fields& fields)>;
  NodeRelay(net::Shard& shard, base::SlabSource& slabs, const NodeTargets& targets, Introduce introduce);
  ~NodeRelay() override;

  base::Result<std::unique_ptr<Call>> make_call(const std::string& url, Receiver& receiver) override;

  // Asks the node itself, for nobody in particular: one message there, one back, within `patience`. `fields` go along.
  // `then` is called once, later or at once, unless this goes before. Errors: UNAVAILABLE; those of the node.
  using Answered = std::function<void(base::Result<base::Bytes>)>;
  void ask(const std::string& url, std::string_view path, base::Bytes message, wire::Fields fields,
           base::Duration patience, Answered then);

 private:
  class NodeCall;
  class Question;
  struct Lane {
    std::unique_ptr<OriginConn> conn;
    size_t calls = 0;
  };
  struct Node {
    std::shared_ptr<Target> target;
    std::unique_ptr<OriginConn> own;  // or null
    std::map<uint64_t, Lane> lanes;   // by tenant; those that are shared, by a number below kSharedLanes
    size_t calls = 0;
  };
  void forget_others();
  Lane& lane_of(Node& node, uint64_t tenant);
  // The one for the own questions of this node, which wait behind no client's calls.
  OriginConn& own_conn(Node& node);
  void prune();
  // Null: it is not there.
  Node* node_at(const std::string& url);

  net::Shard& shard_;
  base::SlabSource& slabs_;
  const NodeTargets& targets_;
  const Introduce introduce_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;  // by URL
  std::vector<std::unique_ptr<Node>> leaving_;          // of other Targets, that still have calls
  base::TimerId prune_ = base::TimerId::kNone;
  std::map<uint64_t, std::unique_ptr<Question>> questions_;
  uint64_t last_question_ = 0;
};

}  // namespace weir::forward
