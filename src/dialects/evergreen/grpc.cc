#include "dialects/evergreen/carriers.h"
#include "dialects/evergreen/evergreen.h"
#include "dialects/evergreen/session.h"
#include "evergreen.pb.h"

namespace weir::evergreen {
namespace {

// With its metadata a fragment of so much data is below 4 MiB: gRPC's clients take no larger message unless told to.
constexpr size_t kLongestData = size_t(3) << 20;

class GrpcSession final : public wire::RpcListener, Carrier {
 public:
  GrpcSession(EvergreenState& state, wire::Rpc& rpc) : rpc_(rpc), session_(state, rpc.exchange(), *this) {}

  void on_message(wire::Rpc&, base::Bytes message) override { session_.on_message(message); }
  bool full() const override { return session_.full(); }
  bool wakes() const override { return true; }
  void on_half_close(wire::Rpc&) override { session_.on_end(); }
  void on_drain(wire::Rpc&) override { session_.on_drain(); }
  void on_close(wire::Rpc&) override { session_.leave(); }

 private:
  void send(const OutFragment& fragment) override { rpc_.send(write_binary(fragment)); }
  size_t longest_data() const override { return kLongestData; }
  bool has_room() const override { return rpc_.exchange().has_room(); }
  void on_room() override { rpc_.wake(); }
  void finish(const base::Status& status) override { rpc_.finish(status); }

  wire::Rpc& rpc_;
  Session session_;
};

class StartSession final : public wire::RpcMethod, public Endpoint {
 public:
  explicit StartSession(EvergreenState& state) : state_(state) {}
  void open(wire::Rpc& rpc) override { rpc.attach(std::make_unique<GrpcSession>(state_, rpc)); }

 private:
  EvergreenState& state_;
};

}  // namespace

void add_grpc(EvergreenState& state, wire::RpcServer& rpcs, Endpoints& endpoints) {
  auto method = std::make_unique<StartSession>(state);
  // The descriptor by its generated class, so that the linker keeps it for JSON and reflection.
  const std::string type = ::evergreen::v2::SessionMessage::descriptor()->full_name();
  rpcs.add({std::string(Evergreen::kService), "StartSession", wire::RpcKind::kBidi, method.get(), type, type, kGrpc,
            wire::Permission::kInfer});
  endpoints.push_back(std::move(method));
}

}  // namespace weir::evergreen
