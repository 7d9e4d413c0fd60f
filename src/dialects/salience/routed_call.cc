#include "dialects/salience/routed_call.h"

#include <utility>

#include "dialects/salience/state.h"
#include "marshal/tenant.h"
#include "msg/spec.h"
#include "salience.pb.h"

namespace weir::salience {
namespace {

using base::Code;
using base::Status;
using Where = session::OtherNodes::Place::Where;

constexpr int kMostHops = 6;
constexpr std::string_view kElsewhere = "another node has the session";

Status elsewhere() { return base::explained(Code::kUnavailable, std::string(kElsewhere), "SESSION_ELSEWHERE"); }
bool is_elsewhere(const Status& status) { return status.code == Code::kUnavailable && status.text == kElsewhere; }

}  // namespace

class RoutedCall::Listener final : public wire::RpcListener {
 public:
  Listener(SalienceState& state, uint64_t number) : salience_(state), number_(number) {}
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_drain(wire::Rpc&) override {
    auto found = salience_.routed.find(number_);
    if (found != salience_.routed.end() && found->second->call_) found->second->call_->resume();
  }
  void on_close(wire::Rpc&) override { salience_.routed.erase(number_); }

 private:
  SalienceState& salience_;
  const uint64_t number_;
};

RoutedCall& RoutedCall::make(SalienceState& state, wire::Rpc& rpc, Routable what) {
  const uint64_t number = ++state.last_waiting;
  auto made = std::make_unique<RoutedCall>(state, rpc, std::move(what), number);
  RoutedCall& call = *made;
  state.routed.emplace(number, std::move(made));
  rpc.attach(std::make_unique<Listener>(state, number));
  return call;
}

void RoutedCall::begin(SalienceState& state, wire::Rpc& rpc, Routable what) {
  const auto guess = was_relayed(rpc) ? std::nullopt : state.sessions.others()->guess(what.session);
  RoutedCall& call = make(state, rpc, std::move(what));
  guess ? call.relay(*guess) : call.find("");
}

void RoutedCall::begin_at(SalienceState& state, wire::Rpc& rpc, Routable what, const Place& place) {
  make(state, rpc, std::move(what)).relay(place);
}

// Relays to another node that has the model. A node that has died stays on the list for some seconds, and looks idle,
// so nodes that were tried are left out. A node that died before it answered may have opened a session, which ends
// unused.
void RoutedCall::try_another() {
  tried_.push_back(node_);
  auto place = salience_.sessions.others()->node_with(what_.model, tried_);
  if (place && ++hops_ <= kMostHops) return relay(*place);
  finish(base::try_again(Code::kUnavailable, "the node '" + node_ + "' cannot be reached; try again later"));
}

void RoutedCall::find(std::string unreachable) {
  if (!what_.session) return try_another();
  if (++hops_ > kMostHops)
    return finish(base::try_again(Code::kUnavailable, "the session moves from node to node; try again later"));
  if (!salience_.searches.begin(what_.tenant))
    return finish(base::try_again(Code::kResourceExhausted,
                                  "too many sessions of this client are being looked for; try again later"));
  auto& others = *salience_.sessions.others();
  others.find(what_.session, std::move(unreachable), salience_.sessions.shard(),
              [&state = salience_, number = number_, who = what_.tenant](base::Result<Place> place) {
                state.searches.end(who);
                auto found = state.routed.find(number);
                if (found != state.routed.end()) found->second->found(std::move(place));
              });
}

void RoutedCall::found(base::Result<Place> place) {
  if (!place) return finish(answered_ ? node_lost() : place.error());
  if (answered_ && place->where != Where::kHere) return finish(node_lost());
  switch (place->where) {
    case Where::kHere: return adopt(place->state);
    case Where::kNode: return was_relayed(rpc_) ? finish(elsewhere()) : relay(*place);
    case Where::kNowhere: break;
  }
  wire::Rpc& rpc = rpc_;
  auto answer = std::move(what_.nowhere);
  salience_.routed.erase(number_);
  answer(rpc);
}

// start() may end the call, and destroy this.
void RoutedCall::relay(const Place& place) {
  call_.reset();
  node_ = place.node;
  auto call = salience_.options.relay->make_call(place.url, *this);
  if (!call) return find(node_);
  call_ = std::move(*call);
  const std::string path = std::string("/").append(Salience::kService).append("/").append(what_.method);
  if (Status status = call_->start(rpc_, path, what_.message); !status.ok()) find(node_);
}

// Notes a token that the client of a Generate gets, for another node to go on from there.
void RoutedCall::note_event(const base::Bytes& message) {
  ::salience::v1::GenerateEvent event;
  if (!event.ParseFromArray(message.data(), int(message.size())) || !event.has_token()) return;
  relayed_.end = event.token().position() + 1;
  if (!event.token().is_prefill()) relayed_.generated.push_back(event.token().id());
}

void RoutedCall::on_message(base::Bytes message) {
  answered_ = true;
  if (what_.resume) note_event(message);
  rpc_.send(std::move(message));
}

bool RoutedCall::full() const { return !rpc_.has_room(); }

// A node that dies before its first message may have run the call: then the session is longer than the client says,
// which whoever takes it tells the client.
void RoutedCall::on_over(Status status, wire::Relay::Source source) {
  if (source == wire::Relay::Source::kNode && !(is_elsewhere(status) && !answered_)) return finish(status);
  if (!answered_) return find(source == wire::Relay::Source::kNode ? "" : node_);
  what_.resume&& relayed_.end > 0 ? find(node_) : finish(node_lost());
}

Status RoutedCall::node_lost() const {
  return base::explained(Code::kUnavailable,
                         "the node '" + node_ +
                             "' was lost while it answered: the session is as it was before, or as it would be with "
                             "the whole answer; send this again",
                         "NODE_LOST");
}

// The turn was not kept, so that nobody else has gone on behind it; or it begins at its offset in any case.
bool RoutedCall::can_resume(const session::SessionState& state) const {
  auto request = read_request(what_.message);
  if (!request || !what_.resume) return false;
  const bool rewinds = request->rewind == session::Append::Rewind::kYes;
  return state.tokens.size() == request->offset || (rewinds && state.tokens.size() > request->offset);
}

// The model must be the same one: its name, version, and vocabulary.
void RoutedCall::adopt(const std::string& text) {
  auto state = session::read_state(text);
  if (!state) return finish(state.error());
  if (state->unkept > 0)
    return finish(base::explained(Code::kNotFound,
                                  "the session's node is gone, and the session had " + std::to_string(state->unkept) +
                                      " bytes, more than the " + std::to_string(session::SessionState::kLargest) +
                                      " that are kept for other nodes",
                                  "SESSION_NOT_KEPT"));
  auto served = salience_.bus.catalog(marshal::models_of(rpc_.exchange().request())).find(state->model, state->version);
  if (!served || !(*served)->spec.text || (*served)->spec.text->vocabulary != state->vocabulary)
    return finish(base::explained(Code::kUnavailable,
                                  "the session's node is gone, and this one does not serve model '" + state->model +
                                      "' version " + state->version,
                                  "MODEL_GONE"));
  if (answered_ && !can_resume(*state)) return finish(node_lost());
  const msg::ModelSpec& spec = (*served)->spec;
  const session::Tenant tenant = salience_.tenant_of_name(state->tenant);
  salience_.sessions.adopt(tenant, what_.session, {spec.name, spec.version, spec.text}, std::move(*state),
                           [&state = salience_, number = number_](const Status& status) {
                             auto found = state.routed.find(number);
                             if (found == state.routed.end()) return;
                             status.ok() ? found->second->run_here() : found->second->finish(status);
                           });
}

void RoutedCall::run_here() {
  wire::Rpc& rpc = rpc_;
  Routable what = std::move(what_);
  Relayed relayed = std::move(relayed_);
  const bool resumes = answered_;
  salience_.routed.erase(number_);
  if (resumes) return what.resume(rpc, std::move(what.message), std::move(relayed));
  what.run(rpc, std::move(what.message));
}

void RoutedCall::finish(const Status& status) {
  wire::Rpc& rpc = rpc_;
  auto self = salience_.routed.extract(number_);
  rpc.finish(status);
}

}  // namespace weir::salience
