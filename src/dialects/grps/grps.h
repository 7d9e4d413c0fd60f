// Grps: the GRPS protocol over REST (/grps/v1/…) and gRPC (grps.protos.v1.GrpsService). One per shard, on its thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "bus/bus.h"
#include "dialects/grps/options.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::dialects {
class Dialect;
}

namespace weir::grps {

// Set by the calls Online and Offline: Offline makes the server not ready for this protocol. One for all shards; any
// thread.
struct Presence {
  std::atomic<bool> online{true};
};

class Monitor;

// Returns a line for each model, input and output that a route of the configuration names and `catalog` lacks. Routes
// without a model are not checked: each request names its own.
std::vector<std::string> missing_from_catalog(const Options& options, const bus::Catalog& catalog);

class Grps {
 public:
  static constexpr std::string_view kService = "grps.protos.v1.GrpsService";
  static constexpr std::string_view kBrpcService = "grps.protos.v1.GrpsBrpcService";  // its unary calls

  // `ready`: the server takes requests (models are loaded, it is not draining); asked on this shard's thread. All
  // borrowed; they outlive every Exchange of the router.
  Grps(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs, Presence& presence,
       Monitor& monitor, std::function<bool()> ready, Options options);
  ~Grps();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::grps
