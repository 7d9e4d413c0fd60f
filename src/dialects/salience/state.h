// What all parts of the dialect share on one shard.
#pragma once

#include <list>
#include <string_view>
#include <unordered_map>

#include "bus/bus.h"
#include "dialects/salience/salience.h"
#include "dialects/salience/turn.h"
#include "marshal/secrets.h"
#include "session/sessions.h"
#include "wire/rpc.h"

namespace weir::salience {

inline constexpr std::string_view kProtocol = "salience";

struct SalienceState {
  bus::Bus& bus;
  session::Sessions& sessions;
  Options options;
  std::list<Turn> turns;  // Generates that run, also those whose clients have left
  // Calls that wait for an answer of another shard, by number; a client that leaves takes its own away.
  std::unordered_map<uint64_t, wire::Rpc*> waiting;
  uint64_t last_waiting = 0;
  marshal::Secrets secrets{};  // options.bearer_tokens

  // Who calls. Errors: UNAUTHENTICATED.
  base::Result<session::Tenant> tenant(wire::Rpc& rpc) const;
  // A model that makes tokens; the default one for "". Errors: NOT_FOUND, UNAVAILABLE, FAILED_PRECONDITION.
  base::Result<bus::Served*> text_model(std::string_view name) const;
  // The model whose manifest a client gets, who cannot name one: the default one; else the only one that makes tokens;
  // else the only one of them that has readouts. Errors: as above.
  base::Result<bus::Served*> readout_model() const;
};

}  // namespace weir::salience
