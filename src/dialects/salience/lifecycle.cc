#include "dialects/salience/lifecycle.h"

#include <functional>
#include <optional>

#include "marshal/pb_wire.h"
#include "marshal/small_message.h"
#include "marshal/tenant.h"
#include "salience.pb.h"
#include "session/session_id.h"

namespace weir::salience {
namespace {

namespace pb = ::salience::v1;
using base::Bytes;
using base::Status;
using session::Tenant;

// Whether the session was looked for at the other nodes already.
enum class Routed : bool { kNo, kYes };

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
// Takes the call off the list of those that wait. Null: its client has left.
wire::Rpc* resume(SalienceState& state, uint64_t number) {
  auto node = state.waiting.extract(number);
  return node.empty() ? nullptr : node.mapped();
}
void answer(SalienceState& state, uint64_t number, const Status& status, std::string message = {}) {
  wire::Rpc* rpc = resume(state, number);
  if (!rpc) return;
  if (status.ok()) rpc->send(Bytes::adopt(std::move(message)));
  rpc->finish(status);
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

// Another node that serves the model, if this one failed to find it with `why`.
std::optional<session::OtherNodes::Place> elsewhere(const SalienceState& state, wire::Rpc& rpc, std::string_view model,
                                                    const Status& why) {
  const bool lacking = why.code == base::Code::kNotFound || why.code == base::Code::kFailedPrecondition;
  if (!state.sessions.others() || !lacking || RoutedCall::was_relayed(rpc)) return std::nullopt;
  return state.sessions.others()->node_with(model, {});
}

void open_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::OpenSessionRequest& request) {
  auto served = resolve(state, rpc, request.model(), bus::Needs::kTokens);
  if (!served) {
    auto place = elsewhere(state, rpc, request.model(), served.error());
    if (!place) return rpc.finish(served.error());
    Routable what{"OpenSession", Bytes::adopt(request.SerializeAsString()), {}, tenant, {}, {}, {}, request.model()};
    return RoutedCall::begin_at(state, rpc, std::move(what), *place);
  }
  const msg::ModelSpec& spec = (*served)->spec;
  rpc.exchange().record().model = spec.name;
  const wire::PeerInfo* peer = rpc.exchange().request().peer;
  auto id = state.sessions.open(tenant, {spec.name, spec.version, spec.text}, peer ? peer->client : base::ClientRef(),
                                state.sessions.others() ? state.tenant_name(rpc) : std::string());
  if (!id) return rpc.finish(id.error());
  pb::OpenSessionResponse response;
  response.set_session_id(session::text(*id));
  response.set_max_model_len(spec.text->max_length);
  if (!state.sessions.others()) return answer_now(rpc, response);
  state.sessions.keep(
      tenant, *id, [&state, number = wait(state, rpc), message = response.SerializeAsString()](const Status& status) {
        answer(state, number, status, message);
      });
}

// Passes a call on to the node that has the session, which is not here. `run` runs the call here, if the session is
// taken over; `nowhere` answers it if no node has the session.
template <class Request>
void route(SalienceState& state, wire::Rpc& rpc, std::string_view method, Tenant tenant, base::SessionId id,
           const Request& request, void (*run)(SalienceState&, wire::Rpc&, Tenant, const Request&, Routed),
           std::function<void(wire::Rpc&)> nowhere) {
  Routable what{method, Bytes::adopt(request.SerializeAsString()), id, tenant, {}, {}, std::move(nowhere)};
  what.run = [&state, tenant, request, run](wire::Rpc& call, const Bytes&) {
    run(state, call, tenant, request, Routed::kYes);
  };
  RoutedCall::begin(state, rpc, std::move(what));
}
void not_found(wire::Rpc& rpc) { rpc.finish(session::no_such_session()); }

// Whether another node has still to be asked for a session that was not found here.
bool may_be_elsewhere(const SalienceState& state, Routed routed, const Status& status) {
  return state.sessions.others() && routed == Routed::kNo && status.code == base::Code::kNotFound;
}

void close_here(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::CloseSessionRequest& request, Routed) {
  auto id = session::parse_session_id(request.session_id());
  state.sessions.close(tenant, *id, [&state, number = wait(state, rpc)] { answer(state, number, {}); });
}

void close_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::CloseSessionRequest& request) {
  auto id = session::parse_session_id(request.session_id());
  if (!id) return answer_now(rpc, pb::CloseSessionResponse());
  if (!state.sessions.others()) return close_here(state, rpc, tenant, request, Routed::kNo);
  state.sessions.knows(tenant, *id, [&state, tenant, id, request, number = wait(state, rpc)](bool here) {
    wire::Rpc* call = resume(state, number);
    if (!call) return;
    if (here) return close_here(state, *call, tenant, request, Routed::kNo);
    auto nowhere = [](wire::Rpc& rpc) { answer_now(rpc, pb::CloseSessionResponse()); };
    route(state, *call, "CloseSession", tenant, *id, request, close_here, nowhere);
  });
}

// Keeps both sessions for other nodes, and then answers. The parent was used, too, so its time to live begins anew.
void keep_fork(SalienceState& state, uint64_t number, Tenant tenant, base::SessionId parent, base::SessionId fork,
               std::string message) {
  state.sessions.keep(tenant, parent, [](const Status&) {});
  state.sessions.keep(tenant, fork, [&state, number, message = std::move(message)](const Status& status) {
    answer(state, number, status, message);
  });
}

void fork_here(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::ForkSessionRequest& request,
               Routed routed) {
  auto id = session::parse_session_id(request.session_id());
  if (!id) return rpc.finish(session::no_such_session());
  auto forked = [&state, number = wait(state, rpc), tenant, id, request, routed](base::Result<base::SessionId> made) {
    if (!made && may_be_elsewhere(state, routed, made.error())) {
      if (wire::Rpc* call = resume(state, number))
        route(state, *call, "ForkSession", tenant, *id, request, fork_here, not_found);
      return;
    }
    if (!made) return answer(state, number, made.error());
    pb::ForkSessionResponse response;
    response.set_session_id(session::text(*made));
    keep_fork(state, number, tenant, *id, *made, response.SerializeAsString());
  };
  state.sessions.fork(tenant, *id, request.at_position(), forked);
}

void fork_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::ForkSessionRequest& request) {
  fork_here(state, rpc, tenant, request, Routed::kNo);
}

void dump_here(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::DumpSessionRequest& request,
               Routed routed) {
  auto id = session::parse_session_id(request.session_id());
  if (!id) return rpc.finish(session::no_such_session());
  auto dumped = [&state, number = wait(state, rpc), tenant, id, request,
                 routed](base::Result<std::vector<uint32_t>> tokens) {
    if (!tokens && may_be_elsewhere(state, routed, tokens.error())) {
      if (wire::Rpc* call = resume(state, number))
        route(state, *call, "DumpSession", tenant, *id, request, dump_here, not_found);
      return;
    }
    if (!tokens) return answer(state, number, tokens.error());
    std::string packed, message;
    packed.reserve(tokens->size() * 3);
    for (uint32_t token : *tokens) marshal::put_varint(packed, token);
    marshal::put_text(message, 1, packed);
    answer(state, number, {}, std::move(message));
  };
  state.sessions.dump(tenant, *id, dumped);
}

void dump_session(SalienceState& state, wire::Rpc& rpc, Tenant tenant, const pb::DumpSessionRequest& request) {
  dump_here(state, rpc, tenant, request, Routed::kNo);
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
    if (message.size() > marshal::kSmallMessage || !request.ParseFromArray(message.data(), int(message.size())))
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
