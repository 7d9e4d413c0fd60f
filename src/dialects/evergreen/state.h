// EvergreenState: all parts of the dialect share it on one shard.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/bytes.h"
#include "bus/bus.h"
#include "dialects/evergreen/graph/retired_graphs.h"
#include "dialects/evergreen/graph/turn_budget.h"
#include "dialects/evergreen/options.h"
#include "session/searches.h"
#include "wire/call_turns.h"
#include "wire/fetcher.h"
#include "wire/rpc.h"

namespace weir::evergreen {

inline constexpr std::string_view kGrpc = "evergreen-grpc", kWebSocket = "evergreen-ws", kNdjson = "evergreen-ndjson";
inline constexpr std::string_view kMessageType = "evergreen.v2.SessionMessage";

class Session;
class SessionKeeper;

struct EvergreenState {
  bus::Bus& bus;
  base::SlabSource& slabs;
  wire::JsonForm& json;
  Options options;
  wire::Fetcher* fetcher = nullptr;          // for references; null: `http:` and `https:` are off
  session::ByteQuota* byte_quota = nullptr;  // that sessions of all shards share; null: each has its own limit only
  wire::ShardTurn turn = {};                 // of reading JSON
  TurnBudget turn_budget{bus.env(), options.steps_per_turn};  // that sessions of this shard share
  RetiredGraphs retired_graphs{turn_budget};
  std::unordered_set<Session*> sessions = {};  // that live
  bool draining = false;
  std::unordered_map<uint64_t, SessionKeeper*> keepers = {};  // of sessions that other nodes may go on with, by number
  uint64_t last_keeper = 0;
  session::Searches searches{options.most_searches};
};

}  // namespace weir::evergreen
