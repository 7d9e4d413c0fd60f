// Conns: all connections of one shard, and what they share.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/metrics.h"
#include "base/network.h"
#include "net/conn.h"
#include "net/shard.h"
#include "net/tls.h"
#include "wire/forwarded.h"

namespace weir::net {

// How many connections the whole server has, and who has them. Any thread.
class ConnectionLimit {
 public:
  enum class Outcome : uint8_t { kYes, kFull, kOverShare };
  ConnectionLimit(size_t limit, base::ShareRule share) : most(limit), share_(share) {}

  // One more of that client (null: nobody counts its connections).
  Outcome enter(base::Client* client) {
    size_t before = now.fetch_add(1, std::memory_order_relaxed);
    Outcome entry = before >= most ? Outcome::kFull : admit(client, before);
    if (entry != Outcome::kYes) now.fetch_sub(1, std::memory_order_relaxed);
    return entry;
  }
  void leave(base::Client* client) {
    if (client) client->take_off(base::Held::kConnections, 1);
    now.fetch_sub(1, std::memory_order_relaxed);
  }
  // A connection turns out to be another client's. kOverShare: it stays the first one's.
  Outcome rename(base::Client* from, base::Client* to) {
    if (Outcome entry = admit(to, now.load(std::memory_order_relaxed) - 1); entry != Outcome::kYes) return entry;
    if (from) from->take_off(base::Held::kConnections, 1);
    return Outcome::kYes;
  }

  const size_t most;
  std::atomic<size_t> now{0};

 private:
  Outcome admit(base::Client* client, size_t before) const {
    if (!client) return Outcome::kYes;
    if (!client->may_have(base::Held::kConnections, 1, share_, before, most)) return Outcome::kOverShare;
    client->add(base::Held::kConnections, 1);
    return Outcome::kYes;
  }
  const base::ShareRule share_;
};

class Conns {
 public:
  enum class Cleartext : bool { kRefused, kServed };
  // `emptied` is called when the last connection of this shard has gone.
  Conns(Shard& shard, const wire::CodecEnv& codecs, ConnectionLimit& connection_limit, base::Metrics& metrics,
        std::function<void()> emptied);
  ~Conns();  // all closed

  // Before the shard starts. Whose connections begin with a PROXY header; borrowed.
  void expect_proxies(const base::NetworkList& networks) { proxied_ = &networks; }
  // Before the shard starts, or on its thread; for the connections to come. Null: no TLS.
  void use(std::shared_ptr<const TlsContext> tls, Cleartext tcp);

  // The shard's thread only.
  void adopt(Accepted accepted);
  void drain(wire::Drain step);
  // Closes all at once; returns how many of them were busy.
  size_t close_all(ClosedBy by);
  void resume_reading();
  size_t size() const { return conns_.size(); }

 private:
  friend class Conn;
  Conn& keep(Accepted accepted, base::ClientRef client);
  void leave(Conn& conn, ClosedBy by);
  bool admitted(ConnectionLimit::Outcome entry);
  base::ClientRef client(std::string_view peer) const;
  void sweep();
  void arm_sweep();

  Shard& shard_;
  const wire::CodecEnv codecs_;
  ConnectionLimit& connection_limit_;
  std::function<void()> emptied_;
  std::shared_ptr<const TlsContext> tls_;
  Cleartext tcp_cleartext_ = Cleartext::kServed;
  std::optional<wire::Drain> draining_;
  const base::NetworkList* proxied_ = nullptr;
  std::vector<std::unique_ptr<Conn>> conns_;
  base::TimerId sweep_ = base::TimerId::kNone;
  size_t unswept_ = 0;  // of conns_, from the front: not ticked yet in this sweep
  base::Time swept_from_{};

  base::Gauge& open_;
  std::array<base::Counter*, 2> accepted_;  // by Transport
  std::array<base::Counter*, 5> closed_;    // by ClosedBy
  base::Counter &turned_away_, &over_share_, &bytes_in_, &bytes_out_;
};

}  // namespace weir::net
