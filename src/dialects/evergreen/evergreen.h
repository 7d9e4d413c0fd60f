// Evergreen: sessions of nodes and actions over gRPC (evergreen.v2.EvergreenService/StartSession), over WebSocket (GET
// /evergreen/v2/session, JSON or binary messages) and over a streamed POST of the same path (NDJSON both ways). One per
// shard, on its thread.
#pragma once

#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "bus/bus.h"
#include "dialects/evergreen/options.h"
#include "session/byte_quota.h"
#include "wire/fetcher.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::dialects {
class Dialect;
}

namespace weir::evergreen {

class Evergreen {
 public:
  static constexpr std::string_view kService = "evergreen.v2.EvergreenService";

  // All borrowed; they outlive every Exchange of the router. `json` has lowerCamelCase names. `fetcher` and
  // `byte_quota` may be null.
  Evergreen(bus::Bus& bus, wire::Router& router, wire::RpcServer& rpcs, base::SlabSource& slabs, wire::JsonForm& json,
            Options options, wire::Fetcher* fetcher = nullptr, session::ByteQuota* byte_quota = nullptr);
  ~Evergreen();

  // The server is going: Session::drain() for all that live, and for those that still come.
  void drain(base::Duration grace);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The protocol with its settings at their defaults.
std::unique_ptr<dialects::Dialect> make_dialect();

}  // namespace weir::evergreen
