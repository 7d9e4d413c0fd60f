// Rpc: one remote procedure call of a protobuf service, server side, whatever carried it: gRPC over HTTP/2, and over
// either version of HTTP gRPC-Web, Connect, or plain JSON. Wire form: gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md),
// gRPC-Web (grpc/doc/PROTOCOL-WEB.md) and Connect (connectrpc.com/docs/protocol).
//
// A method sees messages as serialized protobuf in one contiguous slab each, aligned as received (of lines of JSON: any
// way), with compression and framing taken off; what it sends goes the same way back.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"
#include "wire/exchange.h"
#include "wire/router.h"

namespace weir::wire {

class BodyMemory;
class Offload;
class Rpc;

// JSON texts of up to kLongText bytes, and messages of up to kLongMessage that become JSON, are converted on the shard:
// a text in half a millisecond if it is read directly, in ten if the protobuf library has to (marshal/proto_json.h),
// which writes all JSON.
inline constexpr size_t kLongText = size_t(64) << 10, kLongMessage = size_t(32) << 10;

// How messages to the client are compressed: those of gRPC, gRPC-Web and Connect's streams, and only with a coding that
// the client says it accepts.
enum class MessageCompress : uint8_t {
  kNever,
  kMirror,    // those of a kilobyte and more, with the encoding that the client itself uses for this call
  kAccepted,  // all that become smaller, with the best encoding that the client accepts
};

// A streaming method attaches one to its Rpc. Owned by the Rpc.
class RpcListener {
 public:
  virtual ~RpcListener() = default;
  virtual void on_message(Rpc& rpc, base::Bytes message) = 0;
  // Asked before each message: while true none is delivered, and flow control holds the peer. It is asked again as
  // Rpc::wake() and on_drain() come, and, unless it wakes(), every 5 ms.
  virtual bool full() const { return false; }
  virtual bool wakes() const { return false; }
  virtual void on_half_close(Rpc&) {}
  virtual void on_drain(Rpc&) {}
  // Finished, cancelled, or the connection has gone. Last call.
  virtual void on_close(Rpc&) = 0;
};

class Rpc {
 public:
  virtual ~Rpc() = default;

  virtual Exchange& exchange() = 0;
  // Request metadata: the head's fields (`-bin` values are still base64: see metadata_bin()).
  const Fields& metadata() { return exchange().request().fields; }
  // From grpc-timeout; kNever when the client set none.
  virtual base::Time deadline() const = 0;
  void attach(std::unique_ptr<RpcListener> listener) { listener_ = std::move(listener); }
  RpcListener* listener() { return listener_.get(); }

  // Response metadata that goes out with the head; before the first send(). Names are lower-case; the value of a name
  // that ends in "-bin" is raw bytes (sent as base64), any other is visible ASCII.
  virtual void initial(std::string_view name, std::string_view value) = 0;
  virtual void trailing(std::string_view name, std::string_view value) = 0;
  // Holds for all messages sent from here on; at first kMirror. The response's head names the encoding: kAccepted
  // chooses it until the head is sent, and later uses the one that was chosen, if any.
  virtual void compress(MessageCompress) {}
  // Whether the request message that on_message() or call() has been given came compressed.
  virtual bool came_compressed() const { return false; }
  // One message: the concatenation of `pieces` (a serialized head and tensors that need not be copied).
  virtual void send(std::vector<base::Bytes> pieces) = 0;
  void send(base::Bytes message) {
    std::vector<base::Bytes> one;  // an initializer list would copy, and count references twice
    one.push_back(std::move(message));
    send(std::move(one));
  }
  // Ends the call. Later calls do nothing. Fills the request's record.
  virtual void finish(const base::Status& status) = 0;
  // The listener is not full() any more: messages that wait come in this turn, and not from inside this.
  virtual void wake() {}
  virtual size_t backlog() { return exchange().backlog(); }
  // As Exchange::has_room().
  bool has_room() { return backlog() < Exchange::kLowWater; }

 protected:
  std::unique_ptr<RpcListener> listener_;
};

enum class RpcKind : uint8_t { kUnary, kClientStream, kServerStream, kBidi };

// Protobuf JSON, by message type; marshal::ProtoJson is the one in production. Errors: INVALID_ARGUMENT with place. Any
// thread.
class JsonForm {
 public:
  virtual base::Result<std::string> to_binary(std::string_view type, std::string_view json) = 0;
  virtual base::Result<std::string> to_json(std::string_view type, std::string_view binary) = 0;

 protected:
  ~JsonForm() = default;
};

// A method of a service.
class RpcMethod {
 public:
  // Unary and server-streaming: the one request message is complete (none or two have been refused already).
  virtual void call(Rpc&, base::Bytes /*message*/) {}
  // Client-streaming and bidi: the head is there; attach a listener before returning.
  virtual void open(Rpc&) {}

 protected:
  ~RpcMethod() = default;
};

struct RpcRoute {
  std::string service;  // "inference.GRPCInferenceService"
  std::string method;   // "ModelInfer"
  RpcKind kind = RpcKind::kUnary;
  RpcMethod* target = nullptr;
  std::string request_type, response_type;  // full protobuf names, for JSON
  std::string_view protocol;                // for the request's record: a literal
  Permission permission = Permission::kAdmin;

  bool one_response() const { return kind == RpcKind::kUnary || kind == RpcKind::kClientStream; }
};

struct RpcOptions {
  uint64_t max_message = 64 << 20;  // one message, also after inflating
  uint32_t inflate_ratio = 100;     // inflated : coded, past the first 512 KiB
  // The bytes per second that a peer must send of a message that it has begun; enforced after `grace`. 0: any rate.
  // Between messages a stream may pause.
  uint32_t min_body_rate = 0;
  base::Duration grace = std::chrono::seconds(10);
  // Schedules the slabs of this shard. Null: messages wait without a time limit and in no order.
  BodyMemory* bodies = nullptr;
};

// Serves rpc routes through a Router: POST /<service>/<method>, by content type:
//   application/grpc[+proto]           HTTP/2 only (505 over HTTP/1)
//   application/grpc-web[-text][+proto]  over either version
//   application/json, application/x-ndjson  when there is a JsonForm: unary → one JSON object; streams → NDJSON lines,
//                                      or SSE when `accept` names text/event-stream; requests of client streams are
//                                      NDJSON lines, handed on when the body is complete
//   application/proto, application/json with connect-protocol-version   Connect's unary calls
//   application/connect+proto, +json     Connect's streams
// and GET /<service>/<method>?connect=v1&… of unary methods that only read. Anything else is 415. Unknown methods of
// the services added, and gRPC requests to unknown services, are UNIMPLEMENTED (a trailers-only response with HTTP
// 200). gRPC may name a service without its package, where no other one is called so, as some clients of brpc do.
//
// Deadlines (grpc-timeout) are enforced here: the peer gets DEADLINE_EXCEEDED, and the RpcListener its on_close(). For
// a unary call this holds until its request is complete: then the method passes Rpc::deadline() on to its Call, and the
// bus enforces it.
//
// Backpressure: while there is no slab, or Exchange::kHighWater of answers wait for the peer, request bytes are not
// consumed, so that flow control holds the peer. A call that waits for a slab for too long, or is silent while others
// wait, gets RESOURCE_EXHAUSTED (wire/body_memory.h).
//
// A call whose messages are more work than one turn of the loop allows continues in the next turn (call_turns.h); long
// JSON is read and written by workers (set_worker_pool()). Messages are decompressed, and JSON is converted, into
// slabs. A message that is longer than its JSON is RESOURCE_EXHAUSTED if there is no slab for it.
class RpcServer final : public Service {
 public:
  // All borrowed; they outlive every Exchange. `env` is this shard's.
  RpcServer(Router& router, base::Env& env, base::SlabSource& slabs, JsonForm* json, RpcOptions options = {});
  ~RpcServer();
  void add(RpcRoute route);
  // As Router::permit(), for a call whose message needs more than the route's permission says.
  base::Status permit(Rpc& rpc, Permission permission);
  // The workers for what would take too long on the shard: JSON texts above kLongText, answers above kLongMessage.
  // Before the first Exchange; borrowed. Until then all is done on the shard.
  void set_worker_pool(Offload& offload);
  // As the Router's fallback: gRPC to an unknown method.
  void serve(Exchange& exchange, const PathArgs& args) override;
  bool refuse(Exchange& exchange, const base::Status& why) override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// A `-bin` metadata value, decoded: padded or not; the first of a comma-joined list. Nothing if absent or malformed.
std::optional<std::string> metadata_bin(const Fields& fields, std::string_view name);

}  // namespace weir::wire
