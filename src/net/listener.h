// Listener: one listening socket on one shard. Accepts in bursts, and keeps its head when file descriptors run out: the
// one that is waiting is told by a close (a spare descriptor is kept for that), then accepting pauses, 100 ms at first
// and up to 1 s, so that the loop does not spin. On the last step of the overload ladder one connection is accepted per
// 100 ms: for whoever asks whether the server lives. An exception costs the connection that it was about, and no more.
#pragma once

#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <functional>

#include "base/memory_ledger.h"
#include "base/metrics.h"
#include "net/fd.h"
#include "net/shard_parts.h"

namespace weir::net {

class Listener final : public Resident {
 public:
  using Deliver = std::function<void(Accepted)>;
  // Connections accepted in one turn of the loop: so many whatever they cost, and more while the turn is not long.
  static constexpr int kAcceptsPerTurn = 64, kMostPerTurn = 512;

  // `deliver` is called on the shard's thread for each connection. `starved` counts descriptors that were missing.
  // `memory` knows the step of the overload ladder; null: there is none.
  Listener(Shard::Parts& shard, Fd fd, Transport transport, Deliver deliver, base::Counter& starved,
           base::MemoryLedger* memory);

  void begin();
  // Accepts the connections that wait already, so that none of them is reset, and closes. Nothing is delivered
  // afterwards.
  void stop();

  void flush() override;
  void release() override { deliver_ = {}; }
  bool at_rest() const override { return !waiting_ && !marked_; }

 private:
  enum class Burst : uint8_t { kEmptied, kMore, kStarved, kShort };
  void on_ready();
  void accept_and_wait();
  bool waits() const { return waiting_ || timer_ != base::TimerId::kNone; }
  Burst accept_burst();
  bool turn_one_away();
  void pause();
  void pause_for(base::Duration delay);

  Shard::Parts& shard_;
  asio::posix::basic_stream_descriptor<Executor> fd_;
  const Transport transport_;
  Deliver deliver_;
  base::Counter& starved_;
  base::MemoryLedger* memory_;
  Fd spare_;
  base::Duration delay_{0};
  base::TimerId timer_ = base::TimerId::kNone;
  bool waiting_ = false, marked_ = false;  // for the socket; for the next turn
};

}  // namespace weir::net
