#include "dialects/salience/turn.h"

#include <algorithm>
#include <utility>

#include "dialects/salience/state.h"
#include "marshal/call_times.h"
#include "marshal/moved.h"
#include "marshal/tenant.h"
#include "msg/priority.h"
#include "msg/text_codec.h"

namespace weir::salience {
namespace {

using base::Code;
using base::Status;
using session::Outcome;

Status model_gone(const session::SessionModel& model) {
  return base::explained(Code::kFailedPrecondition,
                         "model '" + model.name + "' version " + model.version +
                             " was unloaded or replaced since the session was opened: open a new one",
                         "MODEL_GONE");
}
Status session_closed() {
  return base::explained(Code::kAborted, "the session was closed while this ran", "SESSION_CLOSED");
}

}  // namespace

void Generate::call(wire::Rpc& rpc, base::Bytes message) {
  const bool alone = salience_.sessions.others() == nullptr;
  begin(salience_, rpc, std::move(message), alone ? Session::kHere : Session::kAnywhere);
}

void Generate::begin(SalienceState& state, wire::Rpc& rpc, base::Bytes message, Session where, Relayed relayed) {
  auto request = read_request(message);
  if (!request) return rpc.finish(request.error());
  if (relayed.end > 0) request->resume(std::move(relayed)), rpc.trailing(marshal::kMoved, "1");
  if (!request->session) return rpc.finish(session::no_such_session());
  auto listener = std::make_unique<Listener>();
  Listener& ear = *listener;
  rpc.attach(std::move(listener));
  base::Bytes routable = where == Session::kAnywhere ? std::move(message) : base::Bytes();
  auto turn = state.turns.emplace(state.turns.end(), state, rpc, ear, std::move(*request), std::move(routable));
  ear.turn = &*turn;
  turn->begin(state.tenant(rpc), turn);
}

void Listener::on_drain(wire::Rpc&) {
  if (turn) turn->drained();
}
void Listener::on_close(wire::Rpc&) {
  if (turn) turn->left();
}

Turn::Turn(SalienceState& state, wire::Rpc& rpc, Listener& listener, TurnRequest&& request, base::Bytes routable)
    : salience_(state),
      rpc_(&rpc),
      listener_(&listener),
      request_(std::move(request)),
      routable_(std::move(routable)),
      call_(state.bus),
      relayed_(request_.relayed.generated.size()) {}

void Turn::begin(session::Tenant tenant, std::list<Turn>::iterator self) {
  self_ = self;
  tenant_ = tenant;
  salience_.sessions.borrow(tenant, *request_.session, request_.append(), *this);
}

// The engine may be reading the lent tokens until the Call's last Event, so the Call is cancelled, not abandoned.
void Turn::left() {
  rpc_ = nullptr;
  listener_->turn = nullptr;
  call_.cancel();
}

void Turn::revoked() {
  closed_ = true;
  call_.cancel();
}

void Turn::granted(base::Result<session::Lease> lease) {
  if (!lease && lease.error().code == Code::kNotFound && !routable_.empty() && rpc_) return route();
  if (!lease) return end(lease.error());
  lease_ = std::move(*lease);
  routable_ = {};
  if (!rpc_) return unchanged({});
  if (Status status = start(); !status.ok()) unchanged(std::move(status));
}

// Called when the session is not here: a RoutedCall looks for it at the other nodes.
void Turn::route() {
  SalienceState& state = salience_;
  wire::Rpc& rpc = *rpc_;
  listener_->turn = nullptr;
  Routable what{"Generate", std::move(routable_), *request_.session, tenant_, {}, {}, {}};
  what.run = [&state](wire::Rpc& call, base::Bytes message) {
    Generate::begin(state, call, std::move(message), Generate::Session::kHere);
  };
  what.resume = [&state](wire::Rpc& call, base::Bytes message, Relayed relayed) {
    Generate::begin(state, call, std::move(message), Generate::Session::kHere, std::move(relayed));
  };
  what.nowhere = [](wire::Rpc& call) { call.finish(session::no_such_session()); };
  state.turns.erase(self_);
  RoutedCall::begin(state, rpc, std::move(what));
}

Status Turn::start() {
  const session::SessionModel& model = lease_->model;
  rpc_->exchange().record().model = model.name;
  auto served = salience_.bus.catalog(marshal::models_of(rpc_->exchange().request())).find(model.name, model.version);
  if (!served || !model.is((*served)->spec)) return model_gone(model);
  if (Status status = check_request(request_, (*served)->spec); !status.ok()) return status;
  if (!request_.idle()) return submit(**served);
  // Nothing is appended or generated, but the request may have rewound the session.
  give_back({Outcome::Kind::kAppended, {}, {}, {}}, [this] { done(Reason::kLength, request_.offset); });
  return {};
}

Status Turn::submit(bus::Served& served) {
  msg::Call& call = call_.fill();
  call.model = served.spec.name;
  call.version = served.spec.version;
  call.session = lease_->session;
  call.priority = request_.level(msg::levels(served.spec).count);
  marshal::set_caller(call, rpc_->exchange());
  call_.grant(bus::kAnswerWindow);
  watch_for_stops(served.spec);
  end_where_it_had_ended(*served.spec.text);
  request_.generation.history = lease_->tokens;
  request_.generation.history_images = lease_->images;
  call.generation = std::make_unique<msg::Generation>(std::move(request_.generation));
  // The Call has no deadline: at a deadline the Sink gets the last Event while the engine may still read the lent
  // tokens. wire::Rpc enforces the client's.
  return call_.submit(served, *this, rpc_->exchange().ticket());
}

// Stop strings are looked for in generated text only: none begins in the prompt.
void Turn::watch_for_stops(const msg::ModelSpec& spec) {
  if (request_.stops.empty()) return;
  spec_ = spec.text;
  text::Completion::Options options;
  options.stop = std::move(request_.stops);
  completion_.emplace(*spec_->codec, std::move(options));
  const auto prompt =
      std::span<const uint32_t>(request_.generation.append).first(request_.generation.append.size() - relayed_);
  completion_->after(prompt.empty() ? lease_->tokens : prompt);
  std::string unused;
  for (uint32_t token : request_.relayed.generated)
    if (completion_->push(token, unused) == text::Completion::State::kStopped) {
      had_ended_ = Reason::kStopString;
      return completion_.reset();
    }
}

// If the node that was lost had already sent the last token, nothing more is generated here.
void Turn::end_where_it_had_ended(const msg::TextSpec& spec) {
  msg::Generation& generation = request_.generation;
  auto is = [](const std::vector<uint32_t>& ids, uint32_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  if (relayed_ == 0) return;
  const uint32_t last = request_.relayed.generated.back();
  if (is(generation.stop_ids, last) || (!generation.ignore_eos && is(spec.eos_ids, last))) had_ended_ = Reason::kEos;
  if (had_ended_) generation.max_tokens = 0;
}

void Turn::on(msg::Call& call, msg::Event&& event) {
  if (call_.on_event(event)) return finished(call, std::move(event));
  if (auto* token = std::get_if<msg::Token>(&event.what)) pass_on(*token);
}

void Turn::pass_on(const msg::Token& token) {
  if (!rpc_ || closed_ || stopped_) return;
  if (token.position < request_.relayed.end) return call_.owe(), call_.repay();
  if (!token.prefill) generated_.push_back(token.id);
  call_.owe();
  rpc_->send(write_token(token));
  if (std::string unused; completion_ && !token.prefill)
    stopped_ = completion_->push(token.id, unused) == text::Completion::State::kStopped;
  if (stopped_ && rpc_) return call_.cancel();
  if (rpc_ && rpc_->has_room()) call_.repay();
}

// The engine reads the lent tokens no more: gives them back to the session first, and then answers the client.
void Turn::finished(msg::Call& call, msg::Event&& event) {
  auto prompt_tokens = uint32_t(call.generation->length());
  auto* failed = std::get_if<msg::Failed>(&event.what);
  auto* done_event = std::get_if<msg::Done>(&event.what);
  bool whole = (done_event || stopped_) && rpc_ && !closed_;
  // Whatever the engine keeps for the session begins with lease and append, so that is what the session may keep; not
  // what a rewind has cut off.
  bool kept = whole || !generated_.empty() || relayed_ > 0;
  if (rpc_) marshal::record_call(rpc_->exchange().record(), call);
  if (rpc_ && call.progress.moves > 0) rpc_->trailing(marshal::kMoved, std::to_string(call.progress.moves));
  Outcome outcome = kept ? appended(*call.generation) : Outcome{Outcome::Kind::kAppended, {}, {}, {}};
  if (whole) {
    const Reason reason = stopped_ ? Reason::kStopString : had_ended_.value_or(reason_of(done_event->finish));
    return give_back(std::move(outcome), [this, reason, prompt_tokens] { done(reason, prompt_tokens); });
  }
  Status status =
      failed ? std::move(failed->status) : base::failure(Code::kInternal, "the model answered with something else");
  if (closed_) status = session_closed();
  give_back(std::move(outcome), [this, status = std::move(status)] { end(status); });
}

Outcome Turn::appended(msg::Generation& generation) const {
  Outcome outcome{Outcome::Kind::kAppended, std::move(generation.append), std::move(generation.images), generated_};
  // Each in memory of its own: as slices they would keep the whole request.
  for (auto& image : outcome.images) image.data = base::Bytes::copy_of(image.data.view());
  return outcome;
}

// Gives the session back. In a cluster `then` is called once other nodes can go on with it.
void Turn::give_back(Outcome&& outcome, std::function<void()> then) {
  const session::Lease lease = *std::exchange(lease_, std::nullopt);
  salience_.sessions.give_back(lease, std::move(outcome), [this, then = std::move(then)](const Status& status) {
    status.ok() || closed_ ? then() : end(status);
  });
}

void Turn::unchanged(Status status) {
  salience_.sessions.give_back(*lease_, {});
  lease_.reset();
  end(status);
}

void Turn::done(Reason reason, uint32_t prompt_tokens) {
  const auto before = uint32_t(relayed_);
  if (rpc_) rpc_->send(write_done(prompt_tokens - before, uint32_t(generated_.size()) + before, reason));
  end({});
}

// The last word; this is gone afterwards.
void Turn::end(const Status& status) {
  if (rpc_) {
    listener_->turn = nullptr;
    rpc_->finish(status);
  }
  salience_.turns.erase(self_);
}

}  // namespace weir::salience
