// Oip: the Open Inference Protocol (with Triton's additions) over REST and gRPC. One per shard, used on its thread.
//
// It registers every `/v2/…` route and the 20 calls of inference.GRPCInferenceService. Infer requests become Calls for
// the Bus; everything else is answered from the Catalog, or by dialects::ServerControl.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/env.h"
#include "bus/bus.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::jobs {
class ShardJobs;
}

namespace weir::dialects {
class Dialect;
class ServerControl;
}  // namespace weir::dialects

namespace weir::oip {

class SharedRegions;
class Traces;

struct OipOptions {
  std::string server_name = "weir";
  std::string server_version;
  uint64_t max_body = 64 << 20;                // of one HTTP request
  jobs::ShardJobs* jobs = nullptr;             // asynchronous inference; null: there is none
  wire::Offload* offload = nullptr;            // reads long loads and writes long statistics; null: the shard does
  std::vector<std::string> forward_headers{};  // patterns of forwarded_headers.h
  uint32_t conn_calls = 512;  // unanswered requests of all streams of one connection; more wait on the wire
  // For models that say themselves whether they are ready; null: they are not asked.
  base::Env* env = nullptr;
  std::function<void(std::function<void()>)> post{};  // runs work on the shard's thread; called by any
};

class Oip {
 public:
  static constexpr std::string_view kService = "inference.GRPCInferenceService";

  // All borrowed; they outlive every Exchange of the router. `traces` and `regions` are shared by all
  // shards.
  Oip(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs,
      dialects::ServerControl& control, Traces& traces, SharedRegions& regions, OipOptions options);
  ~Oip();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::oip
