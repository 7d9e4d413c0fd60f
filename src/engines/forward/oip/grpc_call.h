// GrpcCall: one gRPC call of ours to an origin (grpc/doc/PROTOCOL-HTTP2.md): one message there, any number back, and a
// status. On one shard's thread.
//
// What the origin sends is a stranger's: a length that it announces costs nothing before its bytes have come, a coded
// message, another content type and a status that is none fail the call, and nothing but the call.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/forward/origin_conn.h"
#include "wire/grpc_frames.h"

namespace weir::forward {

class GrpcCall : public OriginCall {
 public:
  // The one whose word the end of a call is.
  enum class From : uint8_t {
    kOrigin,     // it has answered, or has broken a rule
    kTransport,  // the connection, not the origin, says so: the request may not have been seen
    kUnsent,     // the request has not left
  };

  GrpcCall(base::SlabSource& slabs, uint64_t max_message) : slabs_(slabs), max_message_(max_message) {}

  // `path`: "/inference.GRPCInferenceService/ModelInfer"; the pieces of `body` are a message with its prefix. Errors:
  // those of OriginConn::send(); then nothing is called.
  base::Status start(OriginConn& conn, std::string_view path, std::vector<base::Bytes> body, wire::Fields fields);
  // Ends a call that is under way: nothing is called any more.
  void cancel();
  bool under_way() const { return conn_ != nullptr; }
  // Something of an answer has come.
  bool answered() const { return answered_; }
  OriginConn* conn() const { return conn_; }

 protected:
  ~GrpcCall() = default;

  enum class Next : uint8_t { kGoOn, kOver };
  // A message, whole. kOver: the call has been ended meanwhile, and may be gone.
  virtual Next on_message(base::Bytes message) = 0;
  // The last call; texts do not name the origin yet.
  virtual void on_over(base::Status status, From from) = 0;
  // Messages wait for somebody; the origin is held back until let_go().
  virtual bool holds() const { return false; }
  void let_go();
  // The answer has not come in time: ends it, by way of on_over(), and its connection gets no more calls.
  void give_up_late(base::Status status);
  // Ends it with that status, by way of on_over().
  void give_up(base::Status status);

 private:
  void on_head(int status, const wire::Fields& fields) final;
  size_t on_body(std::span<const std::byte> piece) final;
  void on_end(const wire::Fields& trailers) final;
  void on_failed(const base::Status& why) final;
  void leave();

  base::SlabSource& slabs_;
  const uint64_t max_message_;
  std::optional<wire::Deframer> deframer_;
  OriginConn* conn_ = nullptr;        // while it is under way
  std::optional<base::Status> told_;  // a status that came with the head
  size_t owed_ = 0;                   // bytes to be consumed once nothing is held
  bool answered_ = false;
};

// The status of a call by its trailers; UNKNOWN where they have none.
base::Status status_of(const wire::Fields& trailers);

}  // namespace weir::forward
