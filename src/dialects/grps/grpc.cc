#include "dialects/grps/grpc.h"

#include "dialects/grps/inference.h"
#include "grps.pb.h"
#include "marshal/tenant.h"

namespace weir::grps {
namespace {

using base::Status;

// The message says what happened; gRPC itself says OK, save where the client's own deadline has ended the call.
void finish(wire::Rpc& rpc, const Status& status) {
  bool expired = status.code == base::Code::kDeadlineExceeded;
  rpc.finish(expired ? status : Status{});
  rpc.exchange().record().set_outcome(status);
}
void answer(wire::Rpc& rpc, const Status& status, const Message& reply = {}) {
  rpc.send(write_pb(status, reply));
  finish(rpc, status);
}

template <ControlCall call_it>
class Control final : public Method {
 public:
  explicit Control(GrpsState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes bytes) override {
    Message request, reply;
    Status status = read_pb(bytes, state_.slabs, request);
    const auto& catalog = state_.bus.catalog(marshal::models_of(rpc.exchange().request()));
    if (status.ok()) status = call_it(state_, catalog, request, reply);
    answer(rpc, status, reply);
  }

 private:
  GrpsState& state_;
};

class RpcPrediction : public wire::RpcListener, public Prediction {
 public:
  RpcPrediction(GrpsState& state, wire::Rpc& rpc) : Prediction(state, rpc.exchange()), rpc_(rpc) {}

  void begin(const base::Bytes& bytes, Answers answers) {
    Message message;
    Status status = read_pb(bytes, state_.slabs, message);
    if (status.ok()) {
      call().deadline = rpc_.deadline();
      status = ask(std::move(message), "", answers);
    }
    if (!status.ok()) answer(rpc_, status);
  }
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_close(wire::Rpc&) override { leave(); }

 protected:
  wire::Rpc& rpc_;
};

class Unary final : public RpcPrediction {
 public:
  using RpcPrediction::RpcPrediction;
  static constexpr Answers kAnswers = Answers::kOne;

 private:
  Status replied(Message&& reply, More) override {
    reply_ = std::move(reply);
    return {};
  }
  void ended(Status status) override { answer(rpc_, status, reply_); }

  Message reply_;
};

class Streamed final : public RpcPrediction {
 public:
  using RpcPrediction::RpcPrediction;
  static constexpr Answers kAnswers = Answers::kMany;

  void on_drain(wire::Rpc&) override { drained(); }

 private:
  bool has_room() override { return rpc_.has_room(); }
  Status replied(Message&& reply, More more) override {
    if (more == More::kYes || !reply.tensors.empty() || !reply.data.empty()) rpc_.send(write_pb({}, reply));
    return {};
  }
  void ended(Status status) override {
    if (!status.ok()) return answer(rpc_, status);
    finish(rpc_, {});
  }
};

template <class T>
class Predict final : public Method {
 public:
  explicit Predict(GrpsState& state) : state_(state) {}
  void call(wire::Rpc& rpc, base::Bytes bytes) override {
    auto reader = std::make_unique<T>(state_, rpc);
    T& prediction = *reader;
    rpc.attach(std::move(reader));
    prediction.begin(bytes, T::kAnswers);
  }

 private:
  GrpsState& state_;
};

}  // namespace

void add_calls(GrpsState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<Method>>& methods) {
  // The descriptor by its generated class, so that the linker keeps it for JSON and reflection.
  const std::string type = ::grps::protos::v1::GrpsMessage::descriptor()->full_name();
  using wire::Permission;
  auto add = [&](const char* name, Permission permission, std::unique_ptr<Method> method,
                 wire::RpcKind kind = wire::RpcKind::kUnary) {
    rpcs.add({std::string(Grps::kService), name, kind, method.get(), type, type, kGrpc, permission});
    methods.push_back(std::move(method));
  };
  add("Online", Permission::kAdmin, std::make_unique<Control<go_online>>(state));
  add("Offline", Permission::kAdmin, std::make_unique<Control<go_offline>>(state));
  add("CheckLiveness", Permission::kHealth, std::make_unique<Control<check_liveness>>(state));
  add("CheckReadiness", Permission::kHealth, std::make_unique<Control<check_readiness>>(state));
  add("ServerMetadata", Permission::kRead, std::make_unique<Control<server_metadata>>(state));
  add("ModelMetadata", Permission::kRead, std::make_unique<Control<model_metadata>>(state));
  add("Predict", Permission::kInfer, std::make_unique<Predict<Unary>>(state));
  add("PredictStreaming", Permission::kInfer, std::make_unique<Predict<Streamed>>(state), wire::RpcKind::kServerStream);
}

}  // namespace weir::grps
