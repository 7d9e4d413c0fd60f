// GrpcCall: one gRPC call of ours to an origin (grpc/doc/PROTOCOL-HTTP2.md): one message there, any number back, and a
// status. On one shard's thread.
//
// What the origin sends is a stranger's: a length that it announces costs nothing before its bytes have come, a coded
// message, another content type and a status that is none fail the call, and nothing but the call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/forward/http_call.h"
#include "msg/call.h"
#include "wire/grpc_frames.h"

namespace weir::forward {

class GrpcCall : public HttpCall {
 public:
  GrpcCall(base::SlabSource& slabs, uint64_t max_message) : slabs_(slabs), max_message_(max_message) {}

  // `path`: "/inference.GRPCInferenceService/ModelInfer"; the pieces of `body` are a message with its prefix. Errors:
  // those of OriginConn::send(); then nothing is called.
  base::Status start(OriginConn& conn, std::string_view path, std::vector<base::Bytes> body, wire::Fields fields);
  // The same with what is in fields(), which is empty again then.
  base::Status start(OriginConn& conn, std::string_view path, std::vector<base::Bytes> body);
  // For the fields of the request that is started next on this thread.
  static wire::Fields& fields();

 protected:
  ~GrpcCall() = default;

  // A message, whole.
  virtual Next on_message(base::Bytes message) = 0;

 private:
  Next on_answer(int status, const wire::Fields& fields) final;
  Next on_piece(std::span<const std::byte> piece) final;
  std::span<std::byte> receive_buffer() final {
    return deframer_ && !told_ ? deframer_->receive_buffer() : std::span<std::byte>();
  }
  base::Status on_whole(const wire::Fields& trailers) final;

  base::SlabSource& slabs_;
  const uint64_t max_message_;
  std::optional<wire::Deframer> deframer_;
  std::optional<base::Status> told_;  // a status that came with the head
};

// The Call's deadline, as `grpc-timeout`, where it has one.
void add_deadline(base::Time deadline, base::Time now, wire::Fields& fields);
inline void add_deadline(const msg::Call& call, base::Time now, wire::Fields& fields) {
  add_deadline(call.deadline, now, fields);
}

// The status of a call by its trailers; UNKNOWN where they have none.
base::Status status_of(const wire::Fields& trailers);

}  // namespace weir::forward
