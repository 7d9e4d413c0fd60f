// ConnectionLimit: limits the connections of the whole server, and how many of them one client may have.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/client.h"

namespace weir::net {

// Any thread.
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

}  // namespace weir::net
