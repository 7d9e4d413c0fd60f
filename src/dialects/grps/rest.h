// The REST side: one table of routes, each answered by one function.
#pragma once

#include <memory>
#include <vector>

#include "dialects/grps/state.h"
#include "wire/router.h"

namespace weir::grps {

using Serve = void (*)(GrpsState&, wire::Exchange&);

class Endpoint final : public wire::Service {
 public:
  Endpoint(GrpsState& state, Serve serve) : state_(state), serve_(serve) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs&) override { serve_(state_, exchange); }

 private:
  GrpsState& state_;
  Serve serve_;
};

// Registers all routes; `services` keeps what was registered.
void add_routes(GrpsState& state, wire::Router& router, std::vector<std::unique_ptr<Endpoint>>& services);

// POST …/infer/predict (rest_predict.cc).
void predict(GrpsState& state, wire::Exchange& exchange);

// One answer: bin_data as octets, everything else as stamped JSON; with Retry-After where it is 429 or 503. Fills the
// request's record.
// JSON that is long is written by a worker: the Exchange's ExchangeListener is destroyed then.
void respond(const GrpsState& state, wire::Exchange& exchange, const base::Status& status, Message reply = {});
// The same with a number and a body of the caller's.
void respond(wire::Exchange& exchange, const base::Status& status, int http, std::string_view type, base::Bytes body);

}  // namespace weir::grps
