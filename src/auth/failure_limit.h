// FailureLimit: how much time tokens with a wrong signature may cost the server, for each client. A token bucket by the
// generic cell rate algorithm (ITU-T I.371), in the units of VerificationKey::cost(), 0.1 ms each: kBurst at once, then
// kPerSecond. The last token before the wait may cost more than is left: the client then waits the longer.
//
// Clients share kSlots buckets by a keyed hash of their names, so the memory is fixed and nobody can choose whose
// bucket he empties. One for all shards: more connections are no more attempts. Any thread, without a lock.
#pragma once

#include <atomic>
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

  explicit FailureLimit(const base::HashKey& key) : key_(key), full_at_(kSlots) {}

  // How long the client has to wait until another token of it is verified; 0 where one is. Tokens that are verified at
  // the same time by several shards may all be: one for each shard beyond the burst, at most.
  base::Duration wait(std::string_view client, base::Time now) const;
  // A token of it has failed, whose verification has cost that much.
  void count(std::string_view client, base::Time now, uint32_t cost);

 private:
  size_t slot_of(std::string_view client) const { return base::hash64(key_, client) % kSlots; }

  const base::HashKey key_;
  std::vector<std::atomic<int64_t>> full_at_;  // when each bucket is full again, in nanoseconds of Time; 0: it is
};

}  // namespace weir::auth
