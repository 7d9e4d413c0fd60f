// The three transports that can carry a session: gRPC, lines of JSON (NDJSON) and WebSocket. For each session they
// attach an ExchangeListener, which owns the Session, to the Exchange.
#pragma once

#include <memory>
#include <vector>

#include "base/env.h"
#include "dialects/evergreen/state.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::evergreen {

// A service or RPC method that is registered. The dialect owns it.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
};
using Endpoints = std::vector<std::unique_ptr<Endpoint>>;

inline constexpr const char* kPath = "/evergreen/v2/session";
// The interval at which a carrier offers a message again to a session that was full.
inline constexpr base::Duration kFullPoll = std::chrono::milliseconds(20);
// The work that a message of JSON lines or of a WebSocket causes after it has been decoded, in the unit of
// wire::kWorkPerMessage.
inline constexpr size_t kCarrierWorkPerMessage = 32;
// How many bytes can be copied, for a worker, in the time in which one byte of JSON is read.
inline constexpr size_t kCopiedPerWork = 512;

// evergreen.v2.EvergreenService/StartSession.
void add_grpc(EvergreenState& state, wire::RpcServer& rpcs, Endpoints& endpoints);
// POST kPath: one SessionMessage per line, both ways. The answer begins at once (200); a failure is its last line,
// {"error":{"code":…,"status":"…","message":"…"}}.
void add_ndjson(EvergreenState& state, wire::Router& router, Endpoints& endpoints);
// GET kPath with an upgrade: a SessionMessage per WebSocket message, as JSON in text and as protobuf in binary ones.
// Answers come in the form of the client's latest message (JSON before the first). A failure is a last text message as
// above and then a close frame: 1007 for a message that cannot be decoded, 1009 for one that is too large, 1008 for
// what breaks a rule of the session, 1013 if the server is not able to serve it now (UNAVAILABLE, no memory), 1011 for
// the server's own faults, 1001 when the server shuts down.
void add_websocket(EvergreenState& state, wire::Router& router, Endpoints& endpoints);

}  // namespace weir::evergreen
