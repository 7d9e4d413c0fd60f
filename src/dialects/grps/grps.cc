#include "dialects/grps/grps.h"

#include <vector>

#include "dialects/grps/custom.h"
#include "dialects/grps/grpc.h"
#include "dialects/grps/rest.h"
#include "dialects/grps/state.h"

namespace weir::grps {

struct Grps::Parts {
  // One shard's timer feeds the monitor of all.
  void tick() {
    timer = state.bus.env().at(state.bus.env().now() + std::chrono::seconds(1), [this] { tick(); });
    state.monitor.tick(state.bus.env().now());
  }
  ~Parts() { state.bus.env().cancel(timer); }

  GrpsState state;
  std::vector<std::unique_ptr<Endpoint>> services;
  std::vector<std::unique_ptr<Method>> methods;
  std::vector<std::unique_ptr<CustomRoute>> custom;
  base::TimerId timer = base::TimerId::kNone;
};

Grps::Grps(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs, Presence& presence,
           Monitor& monitor, std::function<bool()> ready, Options options)
    : parts_(new Parts{GrpsState{bus, slabs, presence, monitor, std::move(ready), std::move(options)},
                       {},
                       {},
                       {},
                       base::TimerId::kNone}) {
  add_routes(parts_->state, router, parts_->services);
  add_custom_routes(parts_->state, router, parts_->custom);
  add_calls(parts_->state, rpcs, parts_->methods);
  if (monitor.claim()) parts_->tick();
}

Grps::~Grps() = default;

}  // namespace weir::grps
