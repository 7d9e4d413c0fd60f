#include "dialects/evergreen/session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/reference.h"
#include "dialects/evergreen/schema.h"
#include "marshal/tenant.h"
#include "wire/service_guard.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr size_t kTranscripts = 8, kTranscriptBytes = 1 << 20;
// References that are loaded at once: above the first no more messages are read, above the second no more fragments.
constexpr size_t kLoads = 16, kMostLoads = 256;
constexpr base::Duration kAskAgain = std::chrono::seconds(1);
// In steps of the TurnBudget: what an action costs beside what it visits, and what is looked at in one step.
constexpr uint64_t kStepsPerAction = 16, kActionsPerStep = 16;

}  // namespace

Session::Session(EvergreenState& state, wire::Exchange& exchange, Carrier& carrier)
    : state_(state),
      exchange_(exchange),
      carrier_(carrier),
      reservation_(state.byte_quota, marshal::tenant_of(exchange.request())),
      graph_(state.options.graph, &reservation_, &state.turn_budget, base::HashKey::drawn(state.bus.env())),
      born_(state.bus.env().now()),
      used_(born_) {
  state_.sessions.insert(this);
  set_alarm();
  if (state_.draining) drain(base::Duration(0));
}

Session::~Session() {
  state_.sessions.erase(this);
  state_.turn_budget.forget(*this);
  base::Env& env = state_.bus.env();
  env.cancel(alarm_);
  env.cancel(grace_);
  for (auto& [node, ttl] : ttls_) env.cancel(ttl.timer);
  actions_.clear();  // their Cursors, before the graph
}

// One timer for both ends, which looks again if the session has been used since it was set.
void Session::set_alarm() {
  base::Env& env = state_.bus.env();
  alarm_ = env.at(std::min(born_ + state_.options.max_age, used_ + state_.options.idle), [this] {
    alarm_ = base::TimerId::kNone;
    wire::guarded(exchange_, [this] {
      look_at_clock();
      settle();
    });
  });
}

void Session::look_at_clock() {
  const base::Time now = state_.bus.env().now();
  std::string unused;
  if (!actions_.empty() && !stuck(unused)) used_ = now;  // a model is at work
  if (now - born_ >= state_.options.max_age)
    abort(failure(Code::kDeadlineExceeded, "the session has reached the age at which sessions end"));
  else if (now - used_ >= state_.options.idle)
    abort(failure(Code::kDeadlineExceeded, "the session has not been used for too long"));
  else
    set_alarm();
}

void Session::on_message(const base::Bytes& message) {
  if (over_) return;
  used_ = state_.bus.env().now();
  graph_.refill_visits();
  take(message, 0);
  settle();
}

void Session::take(const base::Bytes& message, size_t at) {
  reading_ = &message;
  Status s = read_message(message, at, *this);
  reading_ = nullptr;
  held_at_ = at;
  if (!s.ok()) abort(std::move(s));
}

// The rest of the message, from what cannot be taken now, is read when held_back() ends.
Status Session::hold(Until until) {
  held_ = *reading_;
  held_until_ = until;
  held_size_ = graph_.bytes();
  return {};
}

bool Session::held_back() const {
  switch (held_until_) {
    case Until::kRoom: return graph_.bytes() >= held_size_ && room_may_come();
    case Until::kModel: return busy() && !draining_;
    case Until::kLoads: return loads_.size() >= kLoads;
    case Until::kNextTurn: return graph_.paused();
  }
  return false;
}

bool Session::go_on() {
  if (held_.empty() || over_ || held_back()) return false;
  base::Bytes message = std::exchange(held_, {});
  take(message, held_at_);
  return true;
}

void Session::on_end() {
  ended_ = true;
  settle();
}

void Session::on_drain() {
  resume_ = true;
  settle();
}

// Actions may come to their end here, but stay in the list until settle() sweeps them.
void Session::work() {
  graph_.spend(1 + actions_.size() / kActionsPerStep);
  for (size_t i = 0; i < actions_.size() && !over_; ++i) actions_[i]->run();
}

// Actions that waited for a model, in order of arrival. The others have nothing new to do.
void Session::begin_next() {
  graph_.spend(1 + actions_.size() / kActionsPerStep);
  for (size_t i = 0; i < actions_.size() && !over_ && !busy(); ++i)
    if (actions_[i]->wants_turn()) actions_[i]->run();
}

bool Session::full() const {
  if (over_) return false;
  return congested() || holds() || loads_.size() >= kLoads;
}

// Outputs get the last of the room, so that answers go on a while when questions are held.
bool Session::crowded() const { return room_may_come() && graph_.bytes() > graph_.limits().bytes / 16 * 15; }

void Session::drain(base::Duration grace) {
  if (over_ || std::exchange(draining_, true)) return;
  base::Env& env = state_.bus.env();
  grace_ = env.at(env.now() + grace, [this] {
    grace_ = base::TimerId::kNone;
    waits_no_more_ = true;
    wire::guarded(exchange_, [this] { settle(); });
  });
}

void Session::abort(Status status) {
  if (over_) return;
  over_ = true;
  status_ = std::move(status);
}

void Session::leave() {
  left_ = true;
  abort(failure(Code::kCancelled, "the client has left"));
  settle();
}

Status Session::on_fragment(Fragment& f, std::string_view reference) {
  if (over_) return status_;
  if (graph_.paused()) return hold(Until::kNextTurn);
  graph_.spend(1 + f.children.size());
  // Nodes stay as long as the session, unless some have a time to live: then it is worth waiting for room.
  if (room_may_come() && !graph_.fits(f)) return hold(Until::kRoom);
  if (f.by_reference && loads_.size() >= kMostLoads) return hold(Until::kLoads);
  auto fate = graph_.add(f);
  if (!fate) return fate.error();
  if (*fate == NodeGraph::Fate::kDuplicate || !f.by_reference) return {};
  return begin_load(*graph_.find(f.node), f.seq, reference);
}

// Both would be found out when they have come, but then the memory and the files are taken.
bool Session::on_growth() {
  uint64_t on_the_way = 0;
  for (const auto& l : loads_) on_the_way += l->size();
  return on_the_way <= graph_.limits().bytes - std::min(graph_.bytes(), graph_.limits().bytes);
}

Status Session::begin_load(Node& node, int64_t seq, std::string_view uri) {
  const std::string place = describe_fragment(node.id(), seq) + ": ";
  if (!on_growth()) return failure(Code::kResourceExhausted, place + "too much is being loaded at once");
  auto begun =
      load({state_.bus.env(), state_.options.references, state_.fetcher, base::ledger_of(state_.slabs)}, uri, *this);
  if (!begun) {
    Status s = std::move(begun).error();
    s.text = place + s.text;
    return s;
  }
  (*begun)->node = node.id();
  (*begun)->seq = seq;
  loads_.push_back(std::move(*begun));
  return {};
}

void Session::on_loaded(Load& load, base::Result<base::Bytes> data) {
  wire::guarded(exchange_, [&] { take(load, std::move(data)); });
}

void Session::take(Load& load, base::Result<base::Bytes> data) {
  Status s = data ? Status{} : data.error();
  if (!s.ok()) s.text = describe_fragment(load.node, load.seq) + ": " + s.text;
  if (Node* node = graph_.find(load.node); node && s.ok()) s = graph_.loaded(*node, load.seq, std::move(*data));
  std::erase_if(loads_, [&](const auto& l) { return l.get() == &load; });
  if (!s.ok()) abort(std::move(s));
  settle();
}

Status Session::on_action(ActionRequest&& request) {
  if (over_) return status_;
  if (draining_) return {};  // the session's last word will say why
  if (graph_.paused()) return hold(Until::kNextTurn);
  graph_.spend(kStepsPerAction);
  // Those that models work on end by themselves, so they are worth waiting for. Actions that wait for their inputs are
  // not: what they wait for may be behind this one. Their number is bounded by the bytes that they count as.
  const Schema* schema = find_schema(request.name);
  if (busy() && schema && schema->works != Schema::Works::kAtOnce) return hold(Until::kModel);
  if (room_may_come() && !graph_.has_room_for(Action::size_of(request))) return hold(Until::kRoom);
  auto action = make_action(*this, std::move(request));
  if (!action) return action.error();
  actions_.push_back(std::move(*action));
  actions_.back()->start();
  if (!actions_.empty() && actions_.back()->over()) actions_.pop_back();  // else a message of many would keep them all
  return over_ ? status_ : Status{};
}

Status Session::emit(Node& node, OutFragment&& out) {
  std::vector<std::string_view> children(out.children.begin(), out.children.end());
  Fragment f;
  f.continued = out.continued;
  f.children = children;
  f.has_chunk = out.has_chunk;
  f.metadata = out.has_metadata ? &out.metadata : nullptr;
  f.data = out.data;
  if (Status s = graph_.append(node, std::move(f)); !s.ok()) return s;
  graph_.spend(1 + out.data.size() / kBytesPerStep);
  look_at_ttl(node);
  used_ = state_.bus.env().now();
  carrier_.send(out);
  return {};
}

Status Session::break_off(Node& node, const Status& why) {
  OutFragment end;
  end.node = node.id();
  end.seq = node.next();
  end.has_chunk = node.metadata() != nullptr;
  carrier_.send(end);
  graph_.fail(node, failure(Code::kFailedPrecondition, "node '" + std::string(node.id()) + "': " + why.text));
  look_at_ttl(node);
  return {};
}

Action* Session::maker(const Node& node) {
  graph_.spend(1 + actions_.size() / kActionsPerStep);
  for (const auto& action : actions_)
    if (!action->over() && action->makes(node)) return action.get();
  return nullptr;
}

void Session::set_ttl(std::string_view node, base::Duration ttl) {
  base::Env& env = state_.bus.env();
  auto at = ttls_.find(node);
  if (at == ttls_.end()) at = ttls_.emplace(node, Ttl()).first;
  env.cancel(at->second.timer);
  at->second.timer =
      env.at(env.now() + ttl, [this, name = at->first] { wire::guarded(exchange_, [&] { expire(name); }); });
  if (const Node* known = graph_.find(node)) look_at_ttl(*known);
}

void Session::look_at_ttl(const Node& node) {
  auto at = ttls_.find(node.id());
  if (at == ttls_.end()) return;
  const size_t before = ttls_with_room_;
  ttls_with_room_ -= at->second.makes_room;
  at->second.makes_room = !node.open();
  ttls_with_room_ += at->second.makes_room;
  resume_ = resume_ || (before > 0 && ttls_with_room_ == 0);
}

void Session::expire(const std::string& name) {
  std::string id = name;  // the timer's own string goes with its entry
  auto at = ttls_.find(id);
  ttls_with_room_ -= at->second.makes_room;
  ttls_.erase(at);
  Node* node = graph_.find(id);
  if (node && !graph_.drop(*node, NodeGraph::Reach::kWithChildren).ok())
    set_ttl(id, kAskAgain);
  else
    resume_ = true;
  settle();
}

void Session::remember(Transcript transcript) {
  if (transcript.text.size() > kTranscriptBytes) return;
  transcripts_.push_front(std::make_shared<const Transcript>(std::move(transcript)));
  if (transcripts_.size() > kTranscripts) transcripts_.pop_back();
}

// Whether nothing can go on because of what the client has not sent, and will not.
bool Session::stuck(std::string& missing) const {
  if (!loads_.empty() || congested() || graph_.undelivered()) return false;
  return std::all_of(actions_.begin(), actions_.end(), [&](const auto& a) { return a->waits(missing); });
}

void Session::on_work_ended() {
  turn_came_ = turn_came_ || busy();
  --working_;
}

void Session::settle() {
  if (std::exchange(settling_, true)) return;
  while (!over_) {
    graph_.deliver();
    if (std::exchange(sweep_, false))
      std::erase_if(actions_, [](const auto& a) { return a->over(); });
    else if (std::exchange(turn_came_, false))
      begin_next();
    else if (resume_ && !graph_.paused())
      resume_ = false, work();
    else if (!go_on())
      break;
  }
  end_if_nothing_runs();
  settling_ = false;
  over_ ? finish() : wait_for_turn();
}

void Session::on_turn() {
  wire::guarded(exchange_, [this] { settle(); });
}

void Session::wait_for_turn() {
  const bool held = holds() && held_until_ == Until::kNextTurn;
  if (graph_.paused() && (held || resume_ || graph_.undelivered())) state_.turn_budget.wait(*this);
}

void Session::end_if_nothing_runs() {
  std::string missing;
  bool done = ended_ && !holds();  // the client says no more
  if (over_ || !(done || draining_)) return;
  bool idle = actions_.empty() && loads_.empty();
  if (done && idle)
    abort({});
  else if (draining_ && (actions_.empty() || (waits_no_more_ && stuck(missing))))
    abort(failure(Code::kUnavailable, "the server is shutting down"));
  else if (done && stuck(missing))
    abort(failure(Code::kFailedPrecondition, "the client has ended the session, but " + missing + " has not come"));
}

void Session::finish() {
  if (std::exchange(finished_, true)) return;
  actions_.clear();
  loads_.clear();
  base::Env& env = state_.bus.env();
  for (auto& [node, ttl] : ttls_) env.cancel(ttl.timer);
  ttls_.clear();
  ttls_with_room_ = 0;
  env.cancel(std::exchange(alarm_, base::TimerId::kNone));
  env.cancel(std::exchange(grace_, base::TimerId::kNone));
  held_ = {};
  state_.turn_budget.forget(*this);
  if (!left_) carrier_.finish(status_);
}

}  // namespace weir::evergreen
