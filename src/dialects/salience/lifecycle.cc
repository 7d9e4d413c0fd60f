#include "dialects/salience/lifecycle.h"

#include <functional>

#include "marshal/pb_wire.h"
#include "marshal/tenant.h"
#include "salience.pb.h"
#include "session/session_id.h"

namespace weir::salience {
namespace {

namespace pb = ::salience::v1;
using base::Bytes;
using base::Status;
using session::Tenant;

constexpr size_t kMaxRequest = 64 << 10;  // these requests are a name each; more is no honest one

// Waits for another shard's answer, which is dropped if the client has left meanwhile.
class Waiting final : public wire::RpcListener {
 public:
  Waiting(SalienceState& state, uint64_t number) : salience_(state), number_(number) {}
  void on_message(wire::Rpc&, Bytes) override {}
  void on_close(wire::Rpc&) override { salience_.waiting.erase(number_); }

 private:
  SalienceState& salience_;
  uint64_t number_;
};

uint64_t wait(SalienceState& state, wire::Rpc& rpc) {
  uint64_t number = ++state.last_waiting;
  state.waiting.emplace(number, &rpc);
  rpc.attach(std::make_unique<Waiting>(state, number));
  return number;
}
void answer(SalienceState& state, uint64_t number, const Status& status, std::string message = {}) {
  auto node = state.waiting.extract(number);
  if (node.empty()) return;
  if (status.ok()) node.mapped()->send(Bytes::adopt(std::move(message)));
  node.mapped()->finish(status);
}

void answer_now(wire::Rpc& rpc, const google::protobuf::MessageLite& message) {
  rpc.send(Bytes::adopt(message.SerializeAsString()));
  rpc.finish({});
}

// proto/salience.proto has one code for a model that lacks something, and for several where none is named.
base::Result<bus::Served*> resolve(SalienceState& state, wire::Rpc& rpc, std::string_view name, bus::Needs needs) {
  auto found = state.bus.catalog(marshal::models_of(rpc.exchange().request())).resolve(name, "", needs);
  if (found || found.error().code != base::Code::kInvalidArgument) return found;
  return base::failure(base::Code::kFailedPrecondition, found.error().text);
}

void open_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::OpenSessionRequest& request) {
  auto served = resolve(state, rpc, request.model(), bus::Needs::kTokens);
  if (!served) return rpc.finish(served.error());
  const msg::ModelSpec& spec = (*served)->spec;
  rpc.exchange().record().model = spec.name;
  const wire::PeerInfo* peer = rpc.exchange().request().peer;
  auto id = state.sessions.open(tenant, {spec.name, spec.version, spec.text}, peer ? peer->client : base::ClientRef());
  if (!id) return rpc.finish(id.error());
  pb::OpenSessionResponse response;
  response.set_session_id(session::text(*id));
  response.set_max_model_len(spec.text->max_length);
  answer_now(rpc, response);
}

void close_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::CloseSessionRequest& request) {
  auto id = session::parse_session_id(request.session_id());
  if (!id) return answer_now(rpc, pb::CloseSessionResponse());
  state.sessions.close(tenant, *id, [&state, number = wait(state, rpc)] { answer(state, number, {}); });
}

void fork_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::ForkSessionRequest& request) {
  auto id = session::parse_session_id(request.session_id());
  if (!id) return rpc.finish(session::no_such_session());
  auto forked = [&state, number = wait(state, rpc)](base::Result<base::SessionId> made) {
    if (!made) return answer(state, number, made.error());
    pb::ForkSessionResponse response;
    response.set_session_id(session::text(*made));
    answer(state, number, {}, response.SerializeAsString());
  };
  state.sessions.fork(tenant, *id, request.at_position(), forked);
}

void dump_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::DumpSessionRequest& request) {
  auto id = session::parse_session_id(request.session_id());
  if (!id) return rpc.finish(session::no_such_session());
  auto dumped = [&state, number = wait(state, rpc)](base::Result<std::vector<uint32_t>> tokens) {
    if (!tokens) return answer(state, number, tokens.error());
    std::string packed, message;
    packed.reserve(tokens->size() * 3);
    for (uint32_t token : *tokens) marshal::put_varint(packed, token);
    marshal::put_text(message, 1, packed);
    answer(state, number, {}, std::move(message));
  };
  state.sessions.dump(tenant, *id, dumped);
}

// The request cannot name a model: it is the one of sessions that name none; if there is none, the only one that has
// readouts.
void readout_manifest(SalienceState& state, wire::Rpc& rpc, Tenant, const pb::GetReadoutManifestRequest&) {
  auto served = resolve(state, rpc, "", bus::Needs::kTokens);
  if (!served) served = resolve(state, rpc, "", bus::Needs::kReadouts);
  if (!served) return rpc.finish(served.error());
  const msg::TextSpec& text = *(*served)->spec.text;
  rpc.exchange().record().model = (*served)->spec.name;
  pb::ReadoutManifest manifest;
  for (const auto& concept_name : text.concepts) manifest.add_concepts(concept_name);
  for (uint32_t layer : text.readout_layers) manifest.add_layers(layer);
  manifest.set_hidden_size(text.hidden_size);
  manifest.set_dtype(text.readout_dtype);
  answer_now(rpc, manifest);
}

template <class Request>
class Unary final : public Method {
 public:
  using Answer = void (*)(SalienceState&, wire::Rpc&, Tenant, const Request&);
  Unary(SalienceState& state, Answer answer_it) : salience_(state), answer_(answer_it) {}

  void call(wire::Rpc& rpc, Bytes message) override {
    Request request;
    if (message.size() > kMaxRequest || !request.ParseFromArray(message.data(), int(message.size())))
      return rpc.finish(base::invalid("the message is not a " + Request::descriptor()->name()));
    answer_(salience_, rpc, salience_.tenant(rpc), request);
  }

 private:
  SalienceState& salience_;
  Answer answer_;
};

}  // namespace

void add_lifecycle(SalienceState& state, wire::RpcServer& rpcs, std::vector<std::unique_ptr<Method>>& methods) {
  using wire::Permission;
  auto add = [&]<class Request>(const char* name, void (*answer_it)(SalienceState&, wire::Rpc&, Tenant, const Request&),
                                const std::string& response, Permission permission = Permission::kInfer) {
    methods.push_back(std::make_unique<Unary<Request>>(state, answer_it));
    rpcs.add({std::string(Salience::kService), name, wire::RpcKind::kUnary, methods.back().get(),
              Request::descriptor()->full_name(), response, kProtocol, permission});
  };
  add("OpenSession", open_session, pb::OpenSessionResponse::descriptor()->full_name());
  add("CloseSession", close_session, pb::CloseSessionResponse::descriptor()->full_name());
  add("ForkSession", fork_session, pb::ForkSessionResponse::descriptor()->full_name());
  add("DumpSession", dump_session, pb::DumpSessionResponse::descriptor()->full_name());
  add("GetReadoutManifest", readout_manifest, pb::ReadoutManifest::descriptor()->full_name(), Permission::kRead);
}

}  // namespace weir::salience
