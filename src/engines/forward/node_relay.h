// NodeTargets: the nodes that calls of clients may be handed on to, of all shards. NodeRelay: the connections of one
// shard to them.
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
  explicit NodeTargets(std::string key, std::shared_ptr<const net::TlsContext> tls = nullptr)
      : key_(std::move(key)), tls_(std::move(tls)) {}

  // These are there now, by URL; those that stay are the same Targets. Looks names up, which blocks: no shard's thread.
  void set(const std::vector<std::string>& urls);
  const std::string& key() const { return key_; }
  // Null: it is not there.
  std::shared_ptr<Target> find(const std::string& url) const;

 private:
  const std::string key_;
  const std::shared_ptr<const net::TlsContext> tls_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Target>> targets_;  // under mutex_
};

// On the shard's thread, and destroyed when that has ended, behind all calls.
class NodeRelay final : public wire::Relay {
 public:
  static constexpr uint64_t kLargestMessage = uint64_t(64) << 20;

  // Says in fields for whom the call is.
  using Introduce = std::function<void(const wire::Request& request, wire::Fields& fields)>;
  NodeRelay(net::Shard& shard, base::SlabSource& slabs, const NodeTargets& targets, Introduce introduce)
      : shard_(shard), slabs_(slabs), targets_(targets), introduce_(std::move(introduce)) {}
  ~NodeRelay() override;

  base::Result<std::unique_ptr<Call>> make_call(const std::string& url, Receiver& receiver) override;

 private:
  class NodeCall;
  struct Node {
    std::shared_ptr<Target> target;
    std::unique_ptr<OriginConn> conn;
    size_t calls = 0;
  };
  void forget_others();

  net::Shard& shard_;
  base::SlabSource& slabs_;
  const NodeTargets& targets_;
  const Introduce introduce_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;  // by URL
  std::vector<std::unique_ptr<Node>> leaving_;          // of other Targets, that still have calls
};

}  // namespace weir::forward
