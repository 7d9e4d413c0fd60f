// LeaseView: this node's lease, as threads other than the cluster's see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/env.h"

namespace weir::cluster {

class LeaseView {
 public:
  // The cluster's thread.
  void claim(base::Time until, uint64_t incarnation);
  // Another process has this node's name, until there is a lease.
  void name_taken() { name_taken_ = true; }

  // Any thread. The incarnation that has the lease; 0: there is none.
  uint64_t epoch() const;
  // Why there is none while NATS is there: goes on behind "3 nodes, ".
  std::string why_none(const std::string& name) const;

 private:
  std::atomic<base::Time> until_{base::Time()};
  std::atomic<uint64_t> incarnation_{0};
  std::atomic<bool> name_taken_{false};
};

}  // namespace weir::cluster
