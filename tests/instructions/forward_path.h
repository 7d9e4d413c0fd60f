// The way of one small inference to an origin by gRPC and back, without its sockets: its message, HTTP/2's client, the
// answer's frames and its tensors.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "msg/call.h"
#include "wire/client_codec.h"
#include "wire/grpc_frames.h"

namespace weir::instructions {

class ForwardPath final : wire::ClientAnswer {
 public:
  explicit ForwardPath(base::SlabSource& slabs);
  // The origin says this to the next request.
  std::string_view next_answer();
  // The next request, and that answer to it. False: it is not what was asked for.
  bool exchange(std::string_view answer);

 private:
  void on_head(int status, const wire::Fields& fields) override;
  size_t on_body(std::span<const std::byte> piece) override;
  void on_end(const wire::Fields& trailers) override;
  void on_failed(const base::Status&) override {}
  void take_output();

  base::SlabSource& slabs_;
  msg::Call call_;
  std::unique_ptr<wire::ClientCodec> codec_ = wire::make_h2_client();
  wire::Deframer deframer_;
  base::Bytes message_;
  std::string answer_;
  uint32_t stream_ = 1;
  bool right_ = false;
};

}  // namespace weir::instructions
