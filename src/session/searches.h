// Searches: how many sessions each client looks for among the other nodes of a cluster, so that one client does not
// take all the searches that there are. One shard's; on its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "session/tenant.h"

namespace weir::session {

class Searches {
 public:
  explicit Searches(size_t most) : most_(most) {}

  // False: the client has as many as it may.
  bool begin(Tenant who) {
    size_t& own = under_way_[key(who)];
    if (own >= most_) return false;
    ++own;
    return true;
  }
  void end(Tenant who) {
    auto own = under_way_.find(key(who));
    if (--own->second == 0) under_way_.erase(own);
  }

 private:
  using Key = std::pair<uint32_t, uint64_t>;
  static Key key(Tenant who) { return {who.number, who.client}; }

  const size_t most_;
  std::map<Key, size_t> under_way_;
};

}  // namespace weir::session
