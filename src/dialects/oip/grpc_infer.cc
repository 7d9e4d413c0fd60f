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
    if (Status status = take(message); !status.ok()) rpc_.finish(status);
  }
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { leave(); }

 private:
  Status take(const base::Bytes& message) {
    if (takes_long(message.view())) return read_on_worker(message);
    if (Status status = read_infer(message, state_.slabs, call(), options); !status.ok()) return status;
    return run();
  }
  Status run() {
    if (Status status = find(); !status.ok()) return status;
    if (!spec().decoupled || spec().text) return start();
    return base::failure(base::Code::kUnimplemented,
                         "ModelInfer RPC doesn't support models with decoupled transaction policy: call model '" +
                             spec().name + "' by ModelStreamInfer");
  }
  void request_read(Status status) override {
    if (status.ok()) status = run();
    if (!status.ok()) rpc_.finish(status);
  }
  void answered(const InferReply& reply, const OutputForms&, More) override {
    pieces_ = write_infer(reply, Envelope::kBare);
  }
  void ended(const Status& status) override {
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
