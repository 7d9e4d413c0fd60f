// Pages: what probes and scrapers ask of the server itself: /livez, /readyz, /metrics.
// One per shard, on its thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "wire/offload.h"
#include "wire/router.h"

namespace weir::ops {

struct PageOptions {
  // Why the server is not ready ("draining", "loading models"); empty when it is. Called on the shard's thread.
  std::function<std::string()> not_ready;
  // The state of the cluster, and what is wrong with the models' folders, which is said beside that; null or empty:
  // nothing is.
  std::function<std::string()> cluster, models;
};

class Pages {
 public:
  // Adds the routes. `metrics` and this outlive every Exchange of the router; `metrics` also what `offload` was sent.
  Pages(wire::Router& router, const base::Metrics& metrics, wire::Offload& offload, PageOptions options);
  ~Pages();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::ops
