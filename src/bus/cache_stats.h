// CacheStats: what the response cache of one model version has done, for the protocols' statistics.
#pragma once

#include "bus/catalog.h"
#include "bus/stats.h"

namespace weir::bus {

// As Triton counts: `hit` is how often an answer was there, and how long finding it took; `miss` the rest, with the
// time for looking, and for keeping the answer.
struct CacheStats {
  DurationStat hit, miss;
};

// An Inbox with a response cache is one of these, too.
class CountsCache {
 public:
  virtual const CacheStats& cache_stats() const = 0;

 protected:
  ~CountsCache() = default;
};

// Null: the model has no response cache.
inline const CacheStats* cache_stats(const Served& served) {
  const auto* counts = dynamic_cast<const CountsCache*>(served.inbox.get());
  return counts ? &counts->cache_stats() : nullptr;
}

}  // namespace weir::bus
