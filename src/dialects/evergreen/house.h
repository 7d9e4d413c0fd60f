// What all parts of the dialect share on one shard.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "bus/bus.h"
#include "dialects/evergreen/options.h"
#include "wire/rpc.h"

namespace weir::evergreen {

inline constexpr std::string_view kGrpc = "evergreen-grpc", kWebSocket = "evergreen-ws", kNdjson = "evergreen-ndjson";
inline constexpr std::string_view kMessageType = "evergreen.v2.SessionMessage";

struct House {
  bus::Bus& bus;
  base::SlabSource& slabs;
  wire::JsonForm& json;
  Options options;
};

}  // namespace weir::evergreen
