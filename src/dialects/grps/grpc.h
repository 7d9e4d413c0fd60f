// The eight calls of grps.protos.v1.GrpsService, and the unary ones again as grps.protos.v1.GrpsBrpcService. As the
// reference server's, they end with gRPC's OK; what went wrong is in the message's status (the metrics and the access
// log have the real code). PredictStreaming: one message per answer, a failure is the last one.
#pragma once

#include <memory>
#include <vector>

#include "dialects/grps/state.h"
#include "wire/rpc.h"

namespace weir::grps {

class Method : public wire::RpcMethod {
 public:
  virtual ~Method() = default;
};

// Registers the calls; `methods` owns what was registered.
void add_calls(GrpsState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<Method>>& methods);

}  // namespace weir::grps
