// FailureLimit: how many tokens with a wrong signature one client may show a shard, since each costs the shard the time
// of a verification. A token bucket for each client, by the generic cell rate algorithm (ITU-T I.371): kBurst at once,
// then kPerSecond.
//
// Clients share kSlots buckets by a keyed hash of their names, so the memory is fixed and nobody can choose whose
// bucket he empties. One thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/sip_hash.h"

namespace weir::auth {

class FailureLimit {
 public:
  static constexpr size_t kSlots = 4096;
  static constexpr uint32_t kPerSecond = 10, kBurst = 20;

  explicit FailureLimit(const base::HashKey& key) : key_(key), full_at_(kSlots, base::Time::min()) {}

  // How long the client has to wait until it may fail again; 0 where it may.
  base::Duration wait(std::string_view client, base::Time now) const;
  // It has failed `times` times more.
  void count(std::string_view client, base::Time now, uint32_t times);

 private:
  size_t slot_of(std::string_view client) const { return base::hash64(key_, client) % kSlots; }

  const base::HashKey key_;
  std::vector<base::Time> full_at_;  // when each bucket is full again
};

}  // namespace weir::auth
