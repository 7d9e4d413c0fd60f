#include "forward_path.h"

#include <array>
#include <utility>
#include <vector>

#include "base/recycled.h"
#include "engines/forward/oip/message.h"
#include "inference.pb.h"
#include "support/client_codec.h"
#include "support/h2_client.h"
#include "wire/grpc_frames.h"

namespace weir::instructions {

namespace {

constexpr uint64_t kMostMessage = 1 << 20;

std::string answer_message() {
  inference::ModelInferResponse message;
  message.set_model_name("echo"), message.set_model_version("1");
  auto* output = message.add_outputs();
  output->set_name("INPUT0"), output->set_datatype("FP32");
  output->add_shape(1), output->add_shape(16);
  message.add_raw_output_contents(std::string(64, 'x'));
  return support::grpc_frame(message.SerializeAsString());
}

}  // namespace

ForwardPath::ForwardPath(base::SlabSource& slabs) : slabs_(slabs), deframer_(slabs, kMostMessage) {
  call_.model = "echo";
  call_.inputs.push_back({"INPUT0", msg::DType::kFp32, {1, 16}, base::Bytes::adopt(std::string(64, 'x'))});
  support::feed(*codec_, test::frame(4, 0, 0, "") + test::frame(4, test::kAck, 0, ""));
}

std::string_view ForwardPath::next_answer() {
  static const std::string head = test::block({{":status", "200"}, {"content-type", "application/grpc"}}),
                           body = answer_message(), trailers = test::block({{"grpc-status", "0"}});
  answer_ = test::frame(1, test::kEndHeaders, stream_, head) + test::frame(0, 0, stream_, body) +
            test::frame(1, test::kEndHeaders | test::kEndStream, stream_, trailers);
  stream_ += 2;
  return answer_;
}

bool ForwardPath::exchange(std::string_view answer) {
  right_ = false;
  auto body = forward::write_request(call_, "echo", "", forward::Ending::kAsItIs);
  wire::ClientRequest request;
  request.method = "POST";
  request.authority = "localhost:8001";
  request.target = base::SpareText::take();
  request.target = "/inference.GRPCInferenceService/ModelInfer";
  request.form = wire::ClientRequest::Form::kGrpc;
  request.fields.add("grpc-timeout", "29999m");
  request.body = std::move(body.front());
  base::SpareVector<base::Bytes>::keep(std::move(body));
  codec_->send(request, *this);
  base::SpareText::keep(std::move(request.target));
  take_output();
  codec_->feed(std::as_bytes(std::span(answer)));
  return right_;
}

void ForwardPath::take_output() {
  std::array<iovec, 16> pieces;
  for (size_t n = codec_->pending(pieces); n > 0; n = codec_->pending(pieces)) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; ++i) bytes += pieces[i].iov_len;
    codec_->consumed(bytes);
  }
}

void ForwardPath::on_head(int status, const wire::Fields& fields) {
  right_ = status == 200 && fields.find("content-type") == "application/grpc";
}

size_t ForwardPath::on_body(std::span<const std::byte> piece) {
  auto in = piece;
  if (deframer_.next(in) == wire::Deframer::Step::kMessage) message_ = deframer_.take();
  return piece.size();
}

void ForwardPath::on_end(const wire::Fields& trailers) {
  auto outputs = forward::read_answer(message_, slabs_);
  message_ = {};
  right_ = right_ && trailers.find("grpc-status") == "0" && outputs && outputs->tensors.size() == 1 &&
           outputs->tensors[0].data.size() == 64;
  if (outputs) base::SpareVector<msg::Tensor>::keep(std::move(outputs->tensors));
}

}  // namespace weir::instructions
