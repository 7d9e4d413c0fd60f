// Conns: all connections of one shard.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/metrics.h"
#include "base/network.h"
#include "net/conn.h"
#include "net/conn_env.h"
#include "net/shard.h"

namespace weir::net {

class Conns final : public Conn::Owner {
 public:
  // `emptied` is called when the last connection of this shard has gone.
  Conns(Shard& shard, const wire::CodecEnv& codecs, ConnectionLimit& connection_limit, base::Metrics& metrics,
        std::function<void()> emptied);
  ~Conns();  // all closed

  // Connections from these networks begin with a PROXY header. Before the shard starts; borrowed.
  void expect_proxies(const base::NetworkList& networks) { env_.proxied = &networks; }
  // Sets the TLS of connections to come. Before the shard starts, or on its thread. Null: no TLS. `for_nodes`: for
  // listeners for other nodes of the cluster, which always speak TLS.
  void use(std::shared_ptr<const TlsContext> tls, Cleartext tcp, std::shared_ptr<const TlsContext> for_nodes);

  // The shard's thread only. What is done to all connections is done to as many as fit in a turn of the loop, and to
  // the others in the next ones.
  void adopt(Accepted accepted);
  void drain(wire::Drain step);
  // Closes as many as fit in this turn, at least one; returns how many of them were busy. The caller comes again until
  // size() is 0.
  size_t close_some(ClosedBy by);
  void resume_reading();
  size_t size() const { return conns_.size(); }

 private:
  // A walk over all connections, from the end: whoever closes is replaced by one that has had its turn.
  struct Walk {
    size_t left = 0;  // of conns_, from the front: not visited yet
    base::TimerId timer = base::TimerId::kNone;
  };

  Conn& keep(Accepted accepted, base::ClientRef client);
  void leave(Conn& conn, ClosedBy by) override;
  void sweep();
  void drain_some();
  template <class Visit>
  void go_on(Walk& walk, Visit visit);
  void wake(Walk& walk, base::Time when, void (Conns::*then)());

  ConnEnv env_;
  std::function<void()> emptied_;
  std::vector<std::unique_ptr<Conn>> conns_;
  Walk sweep_, drain_;
  base::Time swept_from_{};

  base::Gauge& open_;
  std::array<base::Counter*, 2> accepted_;  // by Transport
  std::array<base::Counter*, 5> closed_;    // by ClosedBy
};

}  // namespace weir::net
