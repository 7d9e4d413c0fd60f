// ResponseCache: answers that models have given, for Calls that ask the same again (Triton's response_cache).
//
// An answer is found by the model version, its adapter, the tenant's scope (Call::cache_scope: tenants never share),
// the inputs, the outputs asked for and the parameters. All of that goes into a 128 bit SipHash whose key never leaves
// the process, so that no client can make two requests meet. Answers are copies, bounded in bytes, charged to the
// memory ledger, and the least recently used go first; all go when memory is short.
//
// Not cached are Calls of sessions, Calls with more than kLargestInputs to be hashed (3 ms on a shard), failures, and
// answers larger than an eighth of the cache. Any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/memory_ledger.h"
#include "base/sip_hash.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

class ResponseCache {
 public:
  static constexpr uint64_t kLargestInputs = uint64_t(4) << 20;

  struct Key {
    uint64_t owner = 0;  // the model version: new_owner()
    base::Hash128 hash;
    friend bool operator==(const Key& a, const Key& b) {
      return a.owner == b.owner && a.hash.low == b.hash.low && a.hash.high == b.hash.high;
    }
  };

  // `ledger` outlives this; null: nobody is charged.
  ResponseCache(uint64_t bytes, base::MemoryLedger* ledger) : most_(bytes), ledger_(ledger) {}
  ResponseCache(const ResponseCache&) = delete;

  uint64_t new_owner();
  // Nothing of the version is found any more.
  void forget(uint64_t owner);

  static bool takes(const msg::Call& call);
  static Key key_of(uint64_t owner, const msg::Call& call);
  // The answer, whose tensors share the cache's memory; false: it is not there.
  bool find(const Key& key, msg::Outputs& out);
  void insert(const Key& key, const msg::Outputs& answer);

  uint64_t bytes() const;
  size_t answers() const;

 private:
  struct CachedAnswer {
    Key key;
    msg::Outputs answer;
    uint64_t bytes = 0;
    base::MemoryCharge charge;  // for what the tensors' own memory does not count
  };
  struct HashOf {
    size_t operator()(const Key& key) const { return size_t(key.hash.low ^ key.owner); }
  };
  bool copy(const msg::Outputs& from, CachedAnswer& to) const;
  void drop_last();
  void clear();

  const uint64_t most_;
  base::MemoryLedger* const ledger_;
  mutable std::mutex mutex_;  // guards the rest
  uint64_t owners_ = 0, bytes_ = 0;
  std::list<CachedAnswer> entries_;  // the last used one first
  std::unordered_map<Key, std::list<CachedAnswer>::iterator, HashOf> places_;
};

// Puts `inner` behind the cache. A hit is answered where it came in and never reaches `inner`: it counts as a success,
// but neither as an inference nor as an execution. The Inbox is a bus::CountsCache. `stats` outlives it; the model
// gives one answer to each Call.
std::unique_ptr<msg::Inbox> cached(std::shared_ptr<ResponseCache> cache, std::unique_ptr<msg::Inbox> inner,
                                   bus::ModelStats& stats);

}  // namespace weir::sched
