#include "dialects/oip/oip.h"

#include <vector>

#include "dialects/oip/grpc_control.h"
#include "dialects/oip/grpc_infer.h"
#include "dialects/oip/rest.h"
#include "dialects/oip/state.h"

namespace weir::oip {

// "schedule_policy" is priority and timeout.
std::vector<std::string_view> extensions(const OipState& state) {
  std::vector<std::string_view> out = {"classification",
                                       "model_repository",
                                       "model_repository(unload_dependents)",
                                       "schedule_policy",
                                       "sequence",
                                       "sequence(string_id)",
                                       "model_configuration",
                                       "binary_tensor_data",
                                       "parameters",
                                       "statistics",
                                       "trace",
                                       "logging",
                                       "generate"};
  if (state.regions.offered()) out.push_back("system_shared_memory");
  return out;
}

struct Oip::Parts {
  OipState state;
  ModelInfer infer{state};
  ModelStreamInfer stream{state};
  std::vector<std::unique_ptr<ControlCall>> methods;
  std::vector<std::unique_ptr<Endpoint>> services;
};

Oip::Oip(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs,
         dialects::ServerControl& control, Traces& traces, SharedRegions& regions, OipOptions options)
    : parts_(new Parts{OipState{bus, slabs, control, traces, regions, std::move(options), {}, {}, 0, {}}}) {
  Parts& p = *parts_;
  OipState& state = p.state;
  if (state.options.env) state.readiness.emplace(*state.options.env, state.options.post);
  std::string service(Oip::kService);
  rpcs.add({service, "ModelInfer", wire::RpcKind::kUnary, &p.infer, "inference.ModelInferRequest",
            "inference.ModelInferResponse", kGrpc, wire::Permission::kInfer});
  rpcs.add({service, "ModelStreamInfer", wire::RpcKind::kBidi, &p.stream, "inference.ModelInferRequest",
            "inference.ModelStreamInferResponse", kGrpc, wire::Permission::kInfer});
  add_control_calls(p.state, rpcs, p.methods);
  add_routes(p.state, router, p.services);
}

Oip::~Oip() = default;

}  // namespace weir::oip
