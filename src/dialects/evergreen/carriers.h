// The three ways in which a session travels. Each hangs an ExchangeListener on its Exchange that owns a Session.
#pragma once

#include <memory>
#include <vector>

#include "dialects/evergreen/state.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::evergreen {

// The dialect keeps what was registered as long as it lives.
class Entrance {
 public:
  virtual ~Entrance() = default;
};
using Entrances = std::vector<std::unique_ptr<Entrance>>;

inline constexpr const char* kPath = "/evergreen/v2/session";

// evergreen.v2.EvergreenService/StartSession.
void add_grpc(EvergreenState& state, wire::RpcServer& rpcs, Entrances& entrances);
// POST kPath: one SessionMessage per line, both ways. The answer begins at once (200); a failure is its last line,
// {"error":{"code":…,"status":"…","message":"…"}}.
void add_ndjson(EvergreenState& state, wire::Router& router, Entrances& entrances);
// GET kPath with an upgrade: a SessionMessage per WebSocket message, as JSON in text and as protobuf in binary ones.
// Answers come in the form of the client's latest message (JSON before the first). A failure is a last text message as
// above and then a close frame: 1007 for a message that is none, 1009 for one that is too large, 1008 for what breaks a
// rule of the session, 1013 for what cannot be had now, 1011 for our own faults, 1001 when the server shuts down.
void add_websocket(EvergreenState& state, wire::Router& router, Entrances& entrances);

// {"error":{…}}, without a line end.
std::string error_line(const base::Status& status);

}  // namespace weir::evergreen
