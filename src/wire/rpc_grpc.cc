// gRPC over HTTP/2: frames as they are, the status in trailers, or in the head where there is nothing else to say
// ("Trailers-Only", grpc/doc/PROTOCOL-HTTP2.md).
#include "base/recycled.h"
#include "wire/grpc_status.h"
#include "wire/rpc_call.h"

namespace weir::wire {
namespace {

class GrpcCall final : public FramedCall, public base::Recycled<GrpcCall> {
 public:
  using FramedCall::FramedCall;

 private:
  std::span<std::byte> receive_buffer() override { return message_receive_buffer(); }
  std::string_view content_type() const override { return "application/grpc"; }
  void write_frame(GrpcFlag flag, std::span<base::Bytes> pieces) override { write_pieces(exchange_, flag, pieces); }

  void write_end(const base::Status& status) override {
    if (exchange_.responding()) {
      const bool plain = status.ok() && status.text.empty() && status.details.empty() && trailing_.size() == 0;
      if (plain && exchange_.plain_grpc) return exchange_.plain_grpc->end_of_grpc();
      Fields trailers;
      add_grpc_status(trailers, status);
      for (size_t i = 0; i < trailing_.size(); ++i) trailers.add(trailing_[i].name, trailing_[i].value);
      add_request_id(exchange_, trailers, status);
      return exchange_.end(std::move(trailers));
    }
    Response response = head();
    add_grpc_status(response.fields, status);
    for (size_t i = 0; i < trailing_.size(); ++i) response.fields.add(trailing_[i].name, trailing_[i].value);
    add_request_id(exchange_, response.fields, status, exchange_.extra_fields());
    exchange_.head(std::move(response));
    exchange_.end();
  }
};

}  // namespace

std::unique_ptr<RpcCall> make_grpc_call(const RpcRoute& route, const RpcState& state, Exchange& exchange) {
  return std::make_unique<GrpcCall>(route, state, exchange);
}

}  // namespace weir::wire
