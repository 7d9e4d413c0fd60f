// The state that all parts of the dialect share on one shard.
#pragma once

#include <functional>
#include <string_view>

#include "dialects/grps/grps.h"
#include "dialects/grps/message.h"
#include "dialects/grps/monitor.h"

namespace weir::grps {

inline constexpr std::string_view kRest = "grps-rest", kGrpc = "grps-grpc";

struct GrpsState {
  bus::Bus& bus;
  base::SlabSource& slabs;
  Presence& presence;
  Monitor& monitor;
  std::function<bool()> ready;
  Options options;

  // OK when both the server and its clients think that it takes part.
  base::Status readiness() const;
};

// The answers of control calls, over HTTP and gRPC alike (control.cc).
base::Status check_readiness(GrpsState& state, const bus::Catalog& catalog, const Message& request, Message& reply);
base::Status go_online(GrpsState& state, const bus::Catalog& catalog, const Message& request, Message& reply);
base::Status go_offline(GrpsState& state, const bus::Catalog& catalog, const Message& request, Message& reply);
base::Status check_liveness(GrpsState& state, const bus::Catalog& catalog, const Message& request, Message& reply);
base::Status server_metadata(GrpsState& state, const bus::Catalog& catalog, const Message& request, Message& reply);
base::Status model_metadata(GrpsState& state, const bus::Catalog& catalog, const Message& request, Message& reply);
using ControlCall = base::Status (*)(GrpsState&, const bus::Catalog&, const Message&, Message&);

}  // namespace weir::grps
