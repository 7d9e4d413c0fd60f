// The REST side: one table of routes, each answered by one function.
#pragma once

#include <memory>
#include <vector>

#include "dialects/grps/house.h"
#include "wire/router.h"

namespace weir::grps {

using Serve = void (*)(House&, wire::Exchange&);

class Endpoint final : public wire::Service {
 public:
  Endpoint(House& house, Serve serve) : house_(house), serve_(serve) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs&) override { serve_(house_, exchange); }

 private:
  House& house_;
  Serve serve_;
};

// Registers all routes; `services` keeps what was registered.
void add_routes(House& house, wire::Router& router, std::vector<std::unique_ptr<Endpoint>>& services);

// POST …/infer/predict (rest_predict.cc).
void predict(House& house, wire::Exchange& exchange);

// HTTP's number for an outcome, as the configuration has it.
int http_of(const House& house, const base::Status& status);
// One answer: bin_data as octets, everything else as stamped JSON; with Retry-After where it is 429 or 503. Fills the
// ledger.
// JSON that is long is written by a worker: the Exchange's Reader is destroyed then.
void respond(const House& house, wire::Exchange& exchange, const base::Status& status, Message reply = {});
// The same with a number and a body of the caller's.
void respond(wire::Exchange& exchange, const base::Status& status, int http, std::string_view type, base::Bytes body);

}  // namespace weir::grps
