// The state that all parts of the dialect share on one shard.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bus/bus.h"
#include "dialects/salience/routed_call.h"
#include "dialects/salience/salience.h"
#include "dialects/salience/turn.h"
#include "session/searches.h"
#include "session/sessions.h"
#include "wire/rpc.h"

namespace weir::salience {

inline constexpr std::string_view kProtocol = "salience";

struct SalienceState {
  bus::Bus& bus;
  session::Sessions& sessions;
  Options options;
  std::list<Turn> turns;  // Generates that run, also those whose clients have left
  // Calls that wait for another shard, by number. A call whose client leaves is removed.
  std::unordered_map<uint64_t, wire::Rpc*> waiting;
  uint64_t last_waiting = 0;
  std::unordered_map<uint64_t, std::unique_ptr<RoutedCall>> routed;  // calls whose session another node has
  session::Searches searches{options.most_searches};                 // OtherNodes::find()s under way

  // The tenant of the call's client, as sessions are kept apart by it.
  session::Tenant tenant(wire::Rpc& rpc) const;
  // The same as all nodes of a cluster name it, and back.
  std::string tenant_name(wire::Rpc& rpc) const;
  session::Tenant tenant_of_name(std::string_view name) const;
};

}  // namespace weir::salience
