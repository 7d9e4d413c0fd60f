// RpcCall: what the forms of a remote call (gRPC, gRPC-Web, Connect, JSON) have in common: metadata, deadline, message
// counting, the one status. Private to wire/rpc*.cc.
//
// One object per call is both the Exchange's ExchangeListener and the method's Rpc; the Exchange owns it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/attempt.h"
#include "base/memory_ledger.h"
#include "wire/call_turns.h"
#include "wire/coding.h"
#include "wire/grpc_frames.h"
#include "wire/offload.h"
#include "wire/request_pace.h"
#include "wire/rpc.h"

namespace weir::wire {

// The state that all calls of one RpcServer share.
struct RpcState {
  base::Env& env;
  base::SlabSource& slabs;
  JsonForm* json;  // null: no JSON form
  RpcOptions options;
  Offload* offload = nullptr;  // null: all is done on the shard

  mutable ShardTurn turn{};
  mutable InflateShare inflating{};
};

class RpcCall : public ExchangeListener, public Rpc, RequestPace::Owner {
 public:
  RpcCall(const RpcRoute& route, const RpcState& state, Exchange& exchange);
  ~RpcCall() override;

  // The head has been read: checks metadata, opens streaming methods. After this the call may be over already.
  void begin();

  Exchange& exchange() final { return exchange_; }
  base::Time deadline() const final { return deadline_; }
  void initial(std::string_view name, std::string_view value) final;
  void trailing(std::string_view name, std::string_view value) final;
  void finish(const base::Status& status) final;
  void wake() final;

  void on_drain(Exchange&) final;
  void on_close(Exchange&, bool complete) final;

 protected:
  // Protocol-specific: the field with the client's timeout, how it reads, and what a malformed one is.
  struct TimeoutField {
    std::string_view name;
    std::optional<base::Duration> (*parse)(std::string_view);
    base::Code malformed;
  };
  virtual TimeoutField timeout_field() const;
  // Protocol-specific: what else the head must fulfil; OK, or the status to end with.
  virtual base::Status check_head() { return {}; }
  // Protocol-specific: the last bytes of the response. Called once.
  virtual void write_end(const base::Status& status) = 0;
  // Protocol-specific: goes on with request bytes that were held back.
  virtual void resume() {}
  // Protocol-specific: the call is over; lets go of what is held of the request. May come from inside deliver().
  virtual void drop_request() {}

  // The request, as the form decodes it: messages in order, then the half-close.
  void deliver(base::Bytes message);
  void half_close();
  // Ends the call from our side; the method's listener is told.
  void break_off(const base::Status& status);
  // A slab of `bytes` was not to be had: resume() comes when there may be one; the call ends where there is none in
  // time.
  void starved(uint64_t bytes) {
    if (!pace_.starved(bytes, deadline_)) turns_.resume_soon();
  }

  // An exception of a method, for want of memory or otherwise, ends its call, and not the connection with all others.
  template <class Work>
  void guarded(Work work) {
    if (auto status = base::attempt("a method", work); !status.ok()) threw(status);
  }

  // No more request bytes are wanted.
  bool finished() const { return finished_; }
  // The peer asks for more than it takes: no request message is delivered until it has read some of the answers.
  bool congested();
  bool one_request() const { return route_.kind == RpcKind::kUnary || route_.kind == RpcKind::kServerStream; }

  const RpcRoute& route_;
  const RpcState& state_;
  Exchange& exchange_;
  CallTurns turns_;  // resume()
  RequestPace pace_;
  Fields initial_, trailing_;

 private:
  base::Status read_timeout();
  void drop_deadline();
  void notify_close();
  void threw(const base::Status& status);

  // RequestPace::Owner
  void on_memory_free() override { turns_.resume_now(); }
  void give_up(std::string_view reject, const base::Status& why) override;

  base::Time deadline_ = base::kNever;
  base::TimerId deadline_timer_ = base::TimerId::kNone;
  base::Bytes request_;  // of unary and server-streaming methods, until the half-close
  bool has_request_ = false, finished_ = false, told_close_ = false;
};

// A call whose messages are framed as gRPC frames them, in both directions: gRPC itself, gRPC-Web, and streams of
// Connect.
class FramedCall : public RpcCall {
 public:
  FramedCall(const RpcRoute& route, const RpcState& state, Exchange& exchange);

  using Rpc::send;
  void send(std::vector<base::Bytes> pieces) override;
  void compress(MessageCompress from_here_on) final;
  bool came_compressed() const final { return came_compressed_; }
  void on_data(Exchange&, std::span<const std::byte> bytes) final;
  void on_end(Exchange&) final;

 protected:
  base::Status check_head() override;
  void resume() override;
  uint64_t reserved() const final { return deframer_.reserved(); }
  void drop_request() override;

  // The fields that name the coding of messages, and those that the sender of the field takes.
  struct CodingFields {
    std::string_view coding, accepted;
  };
  virtual CodingFields coding_fields() const { return {"grpc-encoding", "grpc-accept-encoding"}; }
  // A message, with framing and compression taken off. While reading() the next one is not wanted: resume() follows.
  virtual void read_message(base::Bytes message) { deliver(std::move(message)); }
  virtual bool reading() const { return false; }
  // Deframer::receive_buffer(), for calls whose frames come as they are; empty while other bytes wait before them.
  std::span<std::byte> message_receive_buffer() {
    const bool waits = finished() || reading() || !held_.empty() || !coded_.empty();
    return waits ? std::span<std::byte>() : deframer_.receive_buffer();
  }

  // Takes transfer coding off (gRPC-Web's base64): returns the frame bytes, in `scratch` or in place, up to where the
  // coding breaks.
  virtual std::span<const std::byte> decode(std::span<const std::byte> bytes, std::string& scratch);
  enum class TransferState : uint8_t { kWhole, kCut, kBroken };
  // The input decoded so far may end here, must go on, or can never go on.
  virtual TransferState transfer() const { return TransferState::kWhole; }
  virtual std::string_view content_type() const = 0;
  virtual void write_frame(GrpcFlag flag, std::span<base::Bytes> pieces) = 0;

  // The response head with all that goes into every one of this call.
  Response head() const;
  void send_head();
  // One message of the answer, also of a call whose method has said its last word; takes the pieces. Errors:
  // RESOURCE_EXHAUSTED.
  base::Status send_message(std::vector<base::Bytes>& pieces);

 private:
  void pump(std::span<const std::byte>& in);
  RequestPace::Pending pending() const;
  bool accept_message();
  void settle();
  void let_in();
  void hold(std::span<const std::byte> in);
  void hold_on(std::string taken, size_t left);
  base::Status no_memory(const char* what);

  Deframer deframer_;
  std::string held_;    // frame bytes that wait for a slab or for congestion to pass
  size_t held_at_ = 0;  // where in held_ they begin
  base::MemoryCharge held_charge_;
  size_t owed_ = 0;    // request bytes not yet given back with consume()
  bool wide_ = false;  // the peer has been told to expect()
  base::Bytes coded_;  // a compressed message that waits for a slab to inflate into, or for its next slice
  std::optional<WholeInflater> inflater_;  // of it
  bool ended_ = false;                     // the request is complete
  bool closed_ = false;                    // and the method knows it
  Coding in_ = Coding::kIdentity, out_ = Coding::kIdentity;
  MessageCompress compress_ = MessageCompress::kMirror;
  bool came_compressed_ = false;  // the latest message that was delivered
};

// Writes frame prefix and pieces to `exchange`: small pieces joined into one, big ones as they are.
void write_pieces(Exchange& exchange, GrpcFlag flag, std::span<base::Bytes> pieces);

inline constexpr std::string_view kRequestId = "x-request-id";
// Into the fields that carry an error's status: the id that the access log has the call by. `with` is what else the
// client gets in the same block: the id is not written twice.
void add_request_id(const Exchange& exchange, Fields& to, const base::Status& status, const Fields& with = {});

// Drops the rest of a request that has been answered.
std::unique_ptr<ExchangeListener> make_discard();

std::unique_ptr<RpcCall> make_grpc_call(const RpcRoute& route, const RpcState& state, Exchange& exchange);
enum class WebCoding : uint8_t { kBinary, kText };
std::unique_ptr<RpcCall> make_web_call(const RpcRoute& route, const RpcState& state, Exchange& exchange,
                                       WebCoding coding);
std::unique_ptr<RpcCall> make_json_call(const RpcRoute& route, const RpcState& state, Exchange& exchange);
// Connect's messages are protobuf or its JSON.
enum class ConnectCodec : uint8_t { kProto, kJson };
std::unique_ptr<RpcCall> make_connect_unary(const RpcRoute& route, const RpcState& state, Exchange& exchange,
                                            ConnectCodec codec);
std::unique_ptr<RpcCall> make_connect_stream(const RpcRoute& route, const RpcState& state, Exchange& exchange,
                                             ConnectCodec codec);
// A unary call whose message is in the query of a GET; it is attached to the Exchange, and begun or refused.
void serve_connect_get(const RpcRoute& route, const RpcState& state, Exchange& exchange);
void refuse_connect_get(const RpcRoute& route, const RpcState& state, Exchange& exchange, const base::Status& why);

}  // namespace weir::wire
