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

// Online and Offline: what a client has told the server about taking part. One for all shards; any thread.
struct Presence {
  std::atomic<bool> online{true};
};

class Monitor;

// Names what the configuration's routes ask for and no model of `catalog` has, a line for each. Routes whose model is
// named by the request alone are passed over.
std::vector<std::string> check_routes(const Options& options, const bus::Catalog& catalog);

class Grps {
 public:
  static constexpr std::string_view kService = "grps.protos.v1.GrpsService";

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
