// The REST side: one table of routes, each answered by one function.
#pragma once

#include <memory>
#include <vector>

#include "dialects/oip/state.h"
#include "wire/router.h"

namespace weir::oip {

using Serve = void (*)(OipState&, wire::Exchange&, const wire::PathArgs&);

class Endpoint final : public wire::Service {
 public:
  Endpoint(OipState& state, Serve serve) : state_(state), serve_(serve) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override { serve_(state_, exchange, args); }

 private:
  OipState& state_;
  Serve serve_;
};

// Registers all routes; `services` keeps what was registered.
void add_routes(OipState& state, wire::Router& router, std::vector<std::unique_ptr<Endpoint>>& services);

// rest_infer.cc: POST …/infer and …/infer_stream (one SSE event per answer, for any model).
void infer(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void infer_stream(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// 200 with a JSON body and exactly `application/json`: clients compare the type. Never compressed: Triton's clients
// send Accept-Encoding with every request, and inflate the answers of infer alone.
void respond_json(wire::Exchange& exchange, std::string json);
// The same for what a model has made; compressed where the client accepts that.
void respond_inferred(wire::Exchange& exchange, std::string json);

}  // namespace weir::oip
