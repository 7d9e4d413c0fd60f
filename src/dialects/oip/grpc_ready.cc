// ModelReady: of a model that says itself whether it is ready, the answer comes when the model has answered.
#include "dialects/oip/grpc_control.h"
#include "inference.pb.h"
#include "marshal/small_message.h"
#include "marshal/tenant.h"
#include "wire/service_guard.h"

namespace weir::oip {
namespace {

class ReadyRpcWaiter final : public wire::RpcListener {
 public:
  ReadyRpcWaiter(bus::ModelReadiness& readiness, uint64_t number) : readiness_(readiness), number_(number) {}
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { readiness_.forget(number_); }

 private:
  bus::ModelReadiness& readiness_;
  uint64_t number_;
};

void answer_ready(wire::Rpc& rpc, bool ready) {
  inference::ModelReadyResponse out;
  out.set_ready(ready);
  rpc.send(base::Bytes::adopt(out.SerializeAsString()));
  rpc.finish({});
}

class ModelReady final : public ControlCall {
 public:
  explicit ModelReady(OipState& state) : state_(state) {}

  void call(wire::Rpc& rpc, base::Bytes message) override {
    inference::ModelReadyRequest request;
    if (auto status = marshal::parse_small(message, request); !status.ok()) return rpc.finish(status);
    const auto& catalog = state_.bus.catalog(marshal::models_of(rpc.exchange().request()));
    auto found = catalog.find(request.name(), request.version());
    if (!found || !state_.control.accepting()) return answer_ready(rpc, false);
    const auto probe = state_.probe(**found);
    if (!probe) return answer_ready(rpc, true);
    const auto number = state_.readiness->ask(probe, [&rpc](const std::string& why_not) {
      wire::guarded(rpc.exchange(), [&] { answer_ready(rpc, why_not.empty()); });
    });
    if (!number) {
      if (const std::string* last = state_.readiness->last_answer(probe)) return answer_ready(rpc, last->empty());
      return rpc.finish(base::failure(base::Code::kUnavailable, std::string(bus::ModelReadiness::kTooManyAsk)));
    }
    rpc.attach(std::make_unique<ReadyRpcWaiter>(*state_.readiness, *number));
  }

 private:
  OipState& state_;
};

}  // namespace

std::unique_ptr<ControlCall> make_model_ready(OipState& state) { return std::make_unique<ModelReady>(state); }

}  // namespace weir::oip
