// Routes of the configuration's own (RouteSpec).
#pragma once

#include <memory>
#include <vector>

#include "dialects/grps/state.h"
#include "wire/router.h"

namespace weir::grps {

class CustomRoute final : public wire::Service {
 public:
  CustomRoute(GrpsState& state, const RouteSpec& spec) : state_(state), spec_(spec) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  bool refuse(wire::Exchange& exchange, const base::Status& why) override;

 private:
  GrpsState& state_;
  const RouteSpec& spec_;  // of state.options
};

// Registers those of state.options; `services` keeps what was registered.
void add_custom_routes(GrpsState& state, wire::Router& router, std::vector<std::unique_ptr<CustomRoute>>& services);

}  // namespace weir::grps
