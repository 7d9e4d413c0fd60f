#include "dialects/evergreen/session.h"

#include <memory>
#include <utility>

#include "marshal/tenant.h"
#include "wire/service_guard.h"

namespace weir::evergreen {

using base::Code;
using base::failure;
using base::Status;

Session::Session(EvergreenState& state, wire::Exchange& exchange, Carrier& carrier)
    : state_(state),
      exchange_(exchange),
      carrier_(carrier),
      graph_(state.retired_graphs, std::make_unique<SessionGraph>(
                                       state.byte_quota, marshal::tenant_of(exchange.request()), state.options.graph,
                                       state.turn_budget, base::HashKey::drawn(state.bus.env()))),
      ttls_(*this),
      loads_(*this),
      actions_(*this),
      input_(*this, loads_),
      clock_(*this) {
  state_.sessions.insert(this);
  if (state_.draining) drain(base::Duration(0));
}

Session::~Session() {
  state_.sessions.erase(this);
  state_.turn_budget.forget(*this);
  actions_.clear();  // their Cursors, before the graph
}

void Session::on_message(const base::Bytes& message) {
  if (over_) return;
  clock_.touch();
  graph().flatten_budget().refill();
  input_.read(message);
  settle();
}

void Session::on_end() {
  ended_ = true;
  settle();
}

void Session::on_drain() {
  actions_.resume();
  settle();
}

void Session::leave() {
  left_ = true;
  abort(failure(Code::kCancelled, "the client has left"));
  settle();
}

bool Session::full() const { return !over_ && (congested() || input_.holds() || loads_.many()); }

void Session::drain(base::Duration grace) {
  if (over_ || std::exchange(draining_, true)) return;
  clock_.begin_grace(grace);
}

void Session::abort(Status status) {
  if (std::exchange(over_, true)) return;
  status_ = std::move(status);
}

void Session::send(const OutFragment& fragment) {
  clock_.touch();
  carrier_.send(fragment);
}

// Outputs get the last of the room, so that answers go on a while when questions are held.
bool Session::congested() const {
  const SessionMemory& memory = graph_.nodes().memory();
  return !carrier_.has_room() || (ttls_.make_room() && memory.used() > memory.limit() / 16 * 15);
}

Status Session::admit_action() {
  if (!std::exchange(admitted_, true)) return {};
  base::Env& env = state_.bus.env();
  return wire::admit_another(exchange_.request().identity, env.now(), env.wall());
}

bool Session::stuck(std::string& missing) const {
  return loads_.empty() && !congested() && !graph_.nodes().undelivered() && actions_.all_wait(missing);
}

void Session::settle() {
  if (std::exchange(settling_, true)) return;
  while (!over_) {
    if (Status s = graph().deliver(); !s.ok()) {
      abort(std::move(s));
      break;
    }
    if (!actions_.go_on() && !input_.go_on()) break;
  }
  end_if_nothing_runs();
  settling_ = false;
  if (over_) return finish();
  const bool more = input_.waits_for_turn() || actions_.due() || graph_.nodes().undelivered();
  if (more && state_.turn_budget.spent()) state_.turn_budget.wait(*this);
}

void Session::on_turn() {
  wire::guarded(exchange_, [this] { settle(); });
}

void Session::end_if_nothing_runs() {
  std::string missing;
  const bool done = ended_ && !input_.holds();
  if (over_ || !(done || draining_)) return;
  if (done && actions_.empty() && loads_.empty())
    abort({});
  else if (draining_ && (actions_.empty() || (clock_.grace_over() && stuck(missing))))
    abort(failure(Code::kUnavailable, "the server is shutting down"));
  else if (done && stuck(missing))
    abort(failure(Code::kFailedPrecondition, "the client has ended the session, but " + missing + " has not come"));
}

void Session::finish() {
  if (std::exchange(finished_, true)) return;
  actions_.clear();
  loads_.clear();
  ttls_.clear();
  clock_.stop();
  input_.clear();
  state_.turn_budget.forget(*this);
  if (!left_) carrier_.finish(status_);
}

}  // namespace weir::evergreen
