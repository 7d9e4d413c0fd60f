#include "dialects/grps/grps.h"

#include <vector>

#include "dialects/grps/custom.h"
#include "dialects/grps/grpc.h"
#include "dialects/grps/house.h"
#include "dialects/grps/rest.h"

namespace weir::grps {

struct Grps::Parts {
  House house;
  std::vector<std::unique_ptr<Endpoint>> services;
  std::vector<std::unique_ptr<Method>> methods;
  std::vector<std::unique_ptr<CustomRoute>> custom;
};

Grps::Grps(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs, Presence& presence,
           std::function<bool()> ready, Options options)
    : parts_(new Parts{House{bus, slabs, presence, std::move(ready), std::move(options)}, {}, {}, {}}) {
  add_routes(parts_->house, router, parts_->services);
  add_custom_routes(parts_->house, router, parts_->custom);
  add_calls(parts_->house, rpcs, parts_->methods);
}

Grps::~Grps() = default;

}  // namespace weir::grps
