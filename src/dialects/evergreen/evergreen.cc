#include "dialects/evergreen/evergreen.h"

#include <vector>

#include "dialects/evergreen/carriers.h"
#include "dialects/evergreen/session.h"

namespace weir::evergreen {

struct Evergreen::Parts {
  House house;
  Entrances entrances;
};

Evergreen::Evergreen(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs,
                     wire::JsonForm& json, Options options, base::Fetcher* fetcher, session::Purse* purse)
    : parts_(new Parts{.house{bus, slabs, json, std::move(options), fetcher, purse}, .entrances{}}) {
  House& house = parts_->house;
  add_grpc(house, rpcs, parts_->entrances);
  add_ndjson(house, router, parts_->entrances);
  if (house.options.websocket) add_websocket(house, router, parts_->entrances);
}

Evergreen::~Evergreen() = default;

void Evergreen::drain(base::Duration grace) {
  House& house = parts_->house;
  house.draining = true;
  std::vector<Session*> live(house.sessions.begin(), house.sessions.end());
  for (Session* session : live) {
    if (!house.sessions.contains(session)) continue;
    session->drain(grace);
    session->settle();
  }
}

}  // namespace weir::evergreen
