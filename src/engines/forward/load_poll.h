// LoadPoll: asks one origin for its /metrics again and again (parameter `load_report: metrics`), at the port that the
// parameter `metrics_port` names or its own. Only of kinds that speak HTTP/1.1. On one shard's thread.
#pragma once

#include <memory>

#include "engines/forward/get.h"
#include "engines/forward/origin.h"
#include "engines/forward/origin_conn.h"

namespace weir::forward {

class LoadPoll {
 public:
  // All outlive this.
  LoadPoll(net::Shard& shard, const Target& target, Origin& origin);

  // Asks, unless it is asking; nothing happens where the origin does not answer.
  void ask();

 private:
  void follow_addresses();

  net::Shard& shard_;
  const Target& target_;
  Origin& origin_;
  Origin place_;  // where the metrics are: the origin's addresses with another port
  uint32_t generation_ = 0;
  OriginConn conn_;
  Get get_;
};

}  // namespace weir::forward
