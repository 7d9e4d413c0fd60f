// Oip: the Open Inference Protocol (with Triton's additions) over REST and gRPC. One per shard, used on its thread.
//
// It registers every `/v2/…` route and the 20 calls of inference.GRPCInferenceService. Infer requests become Calls for
// the Bus; everything else is answered from the Catalog, or by Control.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "bus/bus.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::oip {

class Traces;

// What the protocol asks of the rest of the server; the app adapts it. Called on this shard's thread.
class Control {
 public:
  using Done = std::function<void(base::Status)>;
  using LoadParameters = std::map<std::string, std::string>;  // "config", "file:1/model.onnx" -> raw bytes

  // The server takes requests: it has started, and is not draining.
  virtual bool accepting() const = 0;
  // Says why the server is not ready, in words for a person; empty when it is.
  virtual std::string why_not_ready() const = 0;
  // `done` is called once, later, on this shard's thread, and not after the Oip is gone.
  virtual void load(const std::string& model, LoadParameters parameters, Done done) = 0;
  enum class Dependents : uint8_t { kKeep, kUnload };
  virtual void unload(const std::string& model, Dependents dependents, Done done) = 0;

 protected:
  ~Control() = default;
};

struct OipOptions {
  std::string server_name = "weir";
  std::string server_version;
  uint64_t max_body = 64 << 20;  // of one HTTP request
  uint32_t conn_calls = 512;     // unanswered requests of all streams of one connection; more wait on the wire
};

class Oip {
 public:
  // All borrowed; they outlive every Exchange of the router. `traces` is shared by all shards.
  Oip(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs, Control& control,
      Traces& traces, OipOptions options);
  ~Oip();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::oip
