#include "dialects/evergreen/evergreen.h"

#include "dialects/evergreen/carriers.h"

namespace weir::evergreen {

struct Evergreen::Parts {
  House house;
  Entrances entrances;
};

Evergreen::Evergreen(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs,
                     wire::JsonForm& json, Options options)
    : parts_(new Parts{House{bus, slabs, json, std::move(options)}, {}}) {
  House& house = parts_->house;
  add_grpc(house, rpcs, parts_->entrances);
  add_ndjson(house, router, parts_->entrances);
  if (house.options.websocket) add_websocket(house, router, parts_->entrances);
}

Evergreen::~Evergreen() = default;

}  // namespace weir::evergreen
