#include "dialects/evergreen/evergreen.h"

#include <vector>

#include "dialects/evergreen/carriers.h"
#include "dialects/evergreen/session.h"

namespace weir::evergreen {

struct Evergreen::Parts {
  EvergreenState state;
  Endpoints endpoints;
};

Evergreen::Evergreen(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs,
                     wire::JsonForm& json, Options options, wire::Fetcher* fetcher, session::ByteQuota* byte_quota)
    : parts_(new Parts{.state{bus, slabs, json, std::move(options), fetcher, byte_quota}, .endpoints{}}) {
  EvergreenState& state = parts_->state;
  add_grpc(state, rpcs, parts_->endpoints);
  add_ndjson(state, router, parts_->endpoints);
  if (state.options.websocket) add_websocket(state, router, parts_->endpoints);
}

Evergreen::~Evergreen() = default;

void Evergreen::drain(base::Duration grace) {
  EvergreenState& state = parts_->state;
  state.draining = true;
  std::vector<Session*> live(state.sessions.begin(), state.sessions.end());
  for (Session* session : live) {
    if (!state.sessions.contains(session)) continue;
    session->drain(grace);
    session->settle();
  }
}

}  // namespace weir::evergreen
