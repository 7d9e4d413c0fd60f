// counted_stats(): the counters of a Call that ends before a lane has it, or without it (refused, cancelled, expired).
#pragma once

#include "bus/catalog.h"
#include "bus/stats.h"

namespace weir::bus {

// An Inbox whose Calls count for another model is one of these, too: that of an adapter.
class CountsElsewhere {
 public:
  virtual ModelStats& counted_stats() = 0;

 protected:
  ~CountsElsewhere() = default;
};

inline ModelStats& counted_stats(Served& served) {
  auto* elsewhere = served.spec.parent.empty() ? nullptr : dynamic_cast<CountsElsewhere*>(served.inbox.get());
  return elsewhere ? elsewhere->counted_stats() : served.stats;
}

// The last Event of a Call for an adapter has come: it counts in the adapter's own statistics, too, which nobody adds
// to those of its model.
void count_adapter_call(Served& served, const msg::Call& call, const msg::Event& end, uint64_t at_ms);

}  // namespace weir::bus
