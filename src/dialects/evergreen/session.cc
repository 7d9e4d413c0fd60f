#include "dialects/evergreen/session.h"

#include <exception>
#include <memory>
#include <utility>

#include "marshal/tenant.h"
#include "wire/service_guard.h"

namespace weir::evergreen {

using base::Code;
using base::failure;
using base::Status;

// An exception leaves a graph that may be of no further use: the session is over, and stays kept as it was.
struct Session::AtWork {
  explicit AtWork(Session& its) : session(its) {}
  ~AtWork() {
    session.settling_ = was_settling;
    if (std::uncaught_exceptions() == before || std::exchange(session.over_, true)) return;
    session.status_.code = Code::kInternal;
  }
  Session& session;
  const bool was_settling = session.settling_;
  const int before = std::uncaught_exceptions();
};

Session::Session(EvergreenState& state, wire::Exchange& exchange, Carrier& carrier)
    : state_(state),
      exchange_(exchange),
      carrier_(carrier),
      graph_(state.retired_graphs, std::make_unique<SessionGraph>(
                                       state.byte_quota, marshal::tenant_of(exchange.request()), state.options.graph,
                                       state.turn_budget, base::HashKey::drawn(state.bus.env()))),
      ttls_(*this),
      loads_(*this),
      transcripts_(graph().memory()),
      actions_(*this),
      input_(*this, loads_),
      clock_(*this),
      keeper_(*this) {
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
  {
    AtWork work(*this);
    input_.read(message);
  }
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

void Session::leave(Leaves how) {
  left_ = true;
  const Code said = exchange_.record().code;
  thrown_ = !over_ && (said == Code::kInternal || said == Code::kResourceExhausted);
  if (!over_) leaves_ = how;
  abort(failure(Code::kCancelled, "the client has left"));
  settle();
}

// Where there is no room, what needs it is held (SessionInput): what is read first may make some.
bool Session::full() const {
  return asked_while_full_ = !over_ && (!carrier_.has_room() || input_.holds() || loads_.many());
}

void Session::drain(base::Duration grace) {
  if (over_ || std::exchange(draining_, true)) return;
  clock_.begin_grace(grace);
}

void Session::abort(Status status) {
  if (std::exchange(over_, true)) return;
  status_ = std::move(status);
}

int64_t Session::send(OutFragment&& fragment) {
  if (keeper_.lost()) return 0;  // settle() follows, and ends the session
  clock_.touch();
  const int64_t first = fragment.seq;
  const size_t most = carrier_.longest_data();
  while (fragment.data.size() > most) {
    OutFragment part = fragment;
    part.continued = true;
    part.data = fragment.data.slice(0, most);
    carrier_.send(part);
    fragment.data = fragment.data.slice(most, fragment.data.size() - most);
    fragment.has_metadata = false, fragment.metadata = {};
    ++fragment.seq;
  }
  carrier_.send(fragment);
  return fragment.seq - first;
}

bool Session::congested() const { return !carrier_.has_room() || ttls_.short_of_room(); }

bool Session::pauses_output() {
  paused_ = paused_ || ttls_.short_of_room();
  return congested();
}

Status Session::admit_action() {
  if (!std::exchange(admitted_, true)) return {};
  base::Env& env = state_.bus.env();
  return wire::admit_another(exchange_.request().identity, env.now(), env.wall());
}

bool Session::stuck(std::string& missing) const {
  return loads_.empty() && !congested() && !graph_.nodes().undelivered() && !actions_.due() &&
         actions_.all_wait(missing);
}

void Session::settle() {
  if (settling_) return;
  go_on();
  if (over_) return finish();
  const bool more =
      input_.waits_for_turn() || actions_.due() || graph_.nodes().undelivered() || keeper_.waits_for_turn();
  if (more && state_.turn_budget.spent()) state_.turn_budget.wait(*this);
  if (asked_while_full_ && !full()) carrier_.on_room();
}

void Session::go_on() {
  AtWork work(*this);
  settling_ = true;
  while (!over_) {
    if (Status s = graph().deliver(); !s.ok()) {
      abort(std::move(s));
      break;
    }
    // Memory may have been given back, or the last time to live removed: both can end the pause.
    if (paused_ && !ttls_.short_of_room()) paused_ = false, actions_.resume();
    if (!actions_.go_on() && !input_.go_on() && !keeper_.go_on()) break;
  }
  end_if_nothing_runs();
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

// Decides about the state that is kept: it is deleted if the client has ended the session or its time is over, else
// saved or left as it was.
SessionKeeper::Then Session::fate() const {
  using Then = SessionKeeper::Then;
  if (thrown_) return Then::kAsItWasKept;
  if (leaves_) return *leaves_ == Leaves::kLost ? Then::kSaved : Then::kGone;
  switch (status_.code) {
    case Code::kUnavailable:
    case Code::kAborted: return Then::kSaved;
    case Code::kOk:
    case Code::kInvalidArgument:
    case Code::kFailedPrecondition: return Then::kGone;
    default: return clock_.expired() ? Then::kGone : Then::kAsItWasKept;
  }
}

void Session::finish() {
  if (std::exchange(finished_, true)) return;
  actions_.clear();
  loads_.clear();
  clock_.stop();
  input_.clear();
  keeper_.end(fate());
  ttls_.clear();
  state_.turn_budget.forget(*this);
  if (!left_) carrier_.finish(status_);
}

}  // namespace weir::evergreen
