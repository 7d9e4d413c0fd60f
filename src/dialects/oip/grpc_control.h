// The calls of the service that are not inference: health, metadata, configuration, statistics, repository, settings.
// They go through the generated protobuf classes; all but loads are limited to 64 KiB of request.
#pragma once

#include <memory>
#include <vector>

#include "dialects/oip/state.h"
#include "wire/rpc.h"

namespace weir::oip {

// A method that the dialect owns.
class ControlCall : public wire::RpcMethod {
 public:
  virtual ~ControlCall() = default;
};

// grpc_ready.cc
std::unique_ptr<ControlCall> make_model_ready(OipState& state);

// Registers them; `methods` keeps what was registered.
void add_control_calls(OipState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<ControlCall>>& methods);

}  // namespace weir::oip
