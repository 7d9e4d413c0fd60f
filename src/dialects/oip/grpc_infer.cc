// ModelInfer of grpc_infer.h.
#include "dialects/oip/grpc_infer.h"

#include "base/recycled.h"
#include "dialects/oip/inference.h"
#include "dialects/oip/pb_infer.h"

namespace weir::oip {
namespace {

using base::Status;

class UnaryInfer final : public wire::RpcListener, public Inference, public base::Recycled<UnaryInfer> {
 public:
  UnaryInfer(OipState& state, wire::Rpc& rpc)
      : Inference(state, rpc.exchange(), kGrpc, "ModelStreamInfer"), rpc_(rpc) {}

  void begin(const base::Bytes& message) {
    call().deadline = rpc_.deadline();
    if (takes_long(message.view())) {
      Status status = read_aside(message);
      if (!status.ok()) rpc_.finish(status);
    } else {
      request_read(read_infer(message, state_.slabs, call(), options));
    }
  }
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { leave(); }

 private:
  void request_read(Status status) override {
    if (status.ok()) status = find();
    if (status.ok() && spec().decoupled && !spec().text)
      status = base::failure(base::Code::kUnimplemented,
                             "ModelInfer RPC doesn't support models with decoupled transaction policy: call model '" +
                                 spec().name + "' by ModelStreamInfer");
    if (status.ok()) status = start();
    if (!status.ok()) rpc_.finish(status);
  }
  void answered(const InferReply& reply, const OutputForms&, More) override {
    pieces_ = write_infer(reply, Envelope::kBare);
  }
  void ended(Status status) override {
    if (status.ok()) rpc_.send(std::move(pieces_));
    rpc_.finish(status);
  }

  wire::Rpc& rpc_;
  std::vector<base::Bytes> pieces_;
};

}  // namespace

void ModelInfer::call(wire::Rpc& rpc, base::Bytes message) {
  auto reader = std::make_unique<UnaryInfer>(state_, rpc);
  UnaryInfer& infer = *reader;
  rpc.attach(std::move(reader));
  infer.begin(message);
}

}  // namespace weir::oip
