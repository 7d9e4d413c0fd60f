// Conns: all connections of one shard, and what they share.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/metrics.h"
#include "net/conn.h"
#include "net/shard.h"
#include "net/tls.h"

namespace weir::net {

// How many connections the whole server has. Any thread.
struct Census {
  explicit Census(size_t limit) : most(limit) {}
  bool enter() {
    if (now.fetch_add(1, std::memory_order_relaxed) < most) return true;
    leave();
    return false;
  }
  void leave() { now.fetch_sub(1, std::memory_order_relaxed); }

  const size_t most;
  std::atomic<size_t> now{0};
};

class Conns {
 public:
  enum class Cleartext : bool { kRefused, kServed };
  // `emptied` is called when the last connection of this shard has gone.
  Conns(Shard& shard, const wire::CodecEnv& codecs, Census& census, base::Metrics& metrics,
        std::function<void()> emptied);
  ~Conns();  // all closed

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
  Conn& keep(Accepted accepted);
  void leave(Conn& conn, ClosedBy by);
  void sweep();
  void arm_sweep();

  Shard& shard_;
  const wire::CodecEnv codecs_;
  Census& census_;
  std::function<void()> emptied_;
  std::shared_ptr<const TlsContext> tls_;
  Cleartext tcp_cleartext_ = Cleartext::kServed;
  std::optional<wire::Drain> draining_;
  std::vector<std::unique_ptr<Conn>> conns_;
  base::TimerId sweep_ = base::TimerId::kNone;

  base::Gauge& open_;
  std::array<base::Counter*, 2> accepted_;  // by Transport
  std::array<base::Counter*, 5> closed_;    // by ClosedBy
  base::Counter &turned_away_, &bytes_in_, &bytes_out_;
};

}  // namespace weir::net
