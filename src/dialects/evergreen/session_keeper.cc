#include "dialects/evergreen/session_keeper.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "dialects/evergreen/session.h"
#include "marshal/tenant.h"
#include "marshal/tenant_name.h"
#include "session/byte_quota.h"
#include "session/handover.h"
#include "session/session_id.h"
#include "wire/service_guard.h"

namespace weir::evergreen {

using base::Code;
using base::failure;
using base::Status;
using session::Handover;

namespace {

constexpr uint64_t kSavedPerSecond = 1 << 20;  // bytes
constexpr uint64_t kSmall = 64 << 10;          // bytes of a graph: a tenth of a millisecond
constexpr uint64_t kTimesPerStep = 4;          // looked at
constexpr uint64_t kStepsPerTime = 2;          // that is set: a timer

constexpr auto kBetweenSaves = std::chrono::milliseconds(100);  // but for KEEP, and at the end
// A session that was saved less than this ago and has not changed since is not written again at its end. The second one
// is for sessions with times to live, which go on.
constexpr base::Duration kUnchanged = std::chrono::minutes(1), kTimesUnchanged = std::chrono::seconds(1);

Status cut_off() {
  return base::try_again(Code::kUnavailable,
                         "this node is cut off from NATS, and another one may have the session: resume it there");
}

// Writes the session's state, without the nodes that its keeper leaves out. Errors: RESOURCE_EXHAUSTED.
base::Result<WrittenState> written(Session& session) {
  NodeGraph& graph = session.graph();
  EvergreenState& state = session.state();
  auto left_out = [&keeper = session.keeper()](const Node& node) { return keeper.leaves_out(node); };
  auto too_long = [&] {
    return failure(Code::kResourceExhausted, "the session has " + std::to_string(graph.memory().used()) +
                                                 " bytes or too many parts: at most " +
                                                 std::to_string(Handover::kLargestState) + " bytes are kept");
  };
  std::vector<NodeTime> times;
  uint64_t looked_at = 0;
  session.ttls().each(state.bus.env().now(), [&](const std::string& id, base::Duration left) {
    const Node* node = graph.find(id);
    if (node && node->complete() && !left_out(*node)) times.push_back({id, left});
    return ++looked_at <= 2 * kMostStateParts && times.size() <= kMostStateParts;
  });
  state.turn_budget.spend(looked_at / kTimesPerStep);
  if (looked_at > 2 * kMostStateParts) return too_long();
  WrittenState out = write_graph_state(graph, session.clock().age(), times, left_out);
  state.turn_budget.spend(out.steps);
  if (out.text.empty()) return too_long();
  return out;
}

// Charges `bytes` to the session's client, for a state that is being sent. Null: there is no room.
std::shared_ptr<session::Reservation> charge(Session& session, size_t bytes) {
  auto out = std::make_shared<session::Reservation>(session.state().byte_quota,
                                                    marshal::tenant_of(session.exchange().request()));
  return out->hold(bytes).ok() ? out : nullptr;
}

// Sets the times to live from `done` on. False: the turn's budget is spent, so the rest follows in another turn.
bool set_times(Session& session, const std::vector<NodeTime>& times, size_t& done) {
  for (TurnBudget& turn = session.state().turn_budget; done < times.size(); ++done) {
    if (turn.spent()) return false;
    turn.spend(kStepsPerTime);
    session.ttls().set(times[done].node, times[done].left);
  }
  return true;
}

}  // namespace

SessionKeeper::SessionKeeper(Session& session) : session_(session), state_(session.state()) {}

// If end() was not called, or threw, the session has failed with an exception: whoever resumes it next gets it as it
// was kept last.
SessionKeeper::~SessionKeeper() {
  if (has()) (void)base::attempt("a session that is kept", [this] { state_.options.handover->let_go(id_); });
  forget();
}

// Takes this off the shard's list, so that answers that come later do not find it (with()).
void SessionKeeper::forget() {
  state_.keepers.erase(number_);
  state_.bus.env().cancel(std::exchange(timer_, base::TimerId::kNone));
  reader_.reset(), reading_.reset();
}

// Calls `work` for the keeper of that number, on its shard, and then settles the session. Nothing happens if the
// session has ended meanwhile.
template <class Work>
void SessionKeeper::with(EvergreenState& state, uint64_t number, Work work) {
  auto found = state.keepers.find(number);
  if (found == state.keepers.end()) return;
  Session& session = found->second->session_;
  wire::guarded(session.exchange(), [&, keeper = found->second] {
    work(*keeper);
    session.settle();
  });
}

// Whether the claim was lost since it was made. It stays lost: changes that could not be saved meanwhile are missing.
bool SessionKeeper::lost() {
  lost_ = has() && (lost_ || state_.options.handover->epoch() != epoch_);
  return lost_;
}

// Notes the epoch of this node's claim: a session that is taken or held from now on is this node's until it changes.
Status SessionKeeper::enlist() {
  Handover* handover = state_.options.handover;
  if (!handover) return failure(Code::kUnimplemented, "no sessions are kept here: that takes a cluster (cluster.nats)");
  epoch_ = handover->epoch();
  if (epoch_ == 0) return cut_off();
  lost_ = false;
  number_ = ++state_.last_keeper;
  state_.keepers[number_] = this;
  return {};
}

void SessionKeeper::hold() {
  auto leave = [&state = state_, number = number_] {
    with(state, number, [](SessionKeeper& keeper) {
      keeper.session_.abort(failure(Code::kAborted, "the session goes on at another connection of its client"));
    });
  };
  state_.options.handover->hold(id_, marshal::name_of_tenant(session_.exchange().request()), state_.options.shard,
                                std::move(leave));
}

// --- KEEP -----------------------------------------------------------------------------------------------------------

base::Result<uint64_t> SessionKeeper::keep() {
  if (phase_ == Phase::kNothing) {
    if (Status s = enlist(); !s.ok()) return s;
    id_ = session::make_session_id(state_.bus.env(), base::ShardId{0}, 1);
    phase_ = Phase::kKeeping;
    hold();
  }
  due_ = awaited_ = true;
  return begun_ + 1;
}

std::optional<Status> SessionKeeper::kept(uint64_t save) const {
  if (over_ < save && phase_ != Phase::kNothing) return std::nullopt;
  return last_save_;
}

// When to save next. kNever: nothing is due, or a save is under way.
base::Time SessionKeeper::next_save() const {
  if (!due_ || begun_ != over_ || (phase_ != Phase::kKeeping && phase_ != Phase::kHeld)) return base::kNever;
  return awaited_ ? paced_ : std::max(paced_, last_begun_ + kBetweenSaves);
}

bool SessionKeeper::may_save() const { return state_.bus.env().now() >= next_save(); }

// A record goes by itself when nobody writes to it for longer than it is kept. One timer for that, and for what is due.
void SessionKeeper::wake_at(base::Time when) {
  base::Env& env = state_.bus.env();
  env.cancel(timer_);
  timer_ = env.at(when, [this] {
    timer_ = base::TimerId::kNone;
    due_ = true;
    wire::guarded(session_.exchange(), [this] { session_.settle(); });
  });
}

// A save that fails leaves what was saved before.
void SessionKeeper::save() {
  const base::Time now = state_.bus.env().now();
  due_ = awaited_ = changed_ = false;
  wake_at(now + state_.options.kept / 2);
  last_begun_ = now;
  const uint64_t save = ++begun_;
  auto state = written(session_);
  const uint64_t bytes = state ? state->text.size() : Handover::kLargestState;
  paced_ = now + std::chrono::microseconds(bytes * 1'000'000 / kSavedPerSecond);
  if (!state) return saved(save, std::move(state).error());
  auto transit = charge(session_, bytes);
  if (!transit) return saved(save, failure(Code::kResourceExhausted, "there is no memory to keep the session"));
  auto done = [&s = state_, number = number_, save, transit](const Status& status) {
    with(s, number, [&](SessionKeeper& keeper) { keeper.saved(save, status); });
  };
  state_.options.handover->save(id_, std::move(state->text), state_.options.shard, std::move(done));
}

void SessionKeeper::saved(uint64_t save, Status status) {
  over_ = save;
  last_save_ = std::move(status);
  session_.actions().resume();
  if (last_save_.code == Code::kAborted) return session_.abort(last_save_);
  if (phase_ != Phase::kKeeping) return;
  phase_ = last_save_.ok() ? Phase::kHeld : Phase::kNothing;
  if (last_save_.ok()) return;
  forget();
  state_.options.handover->end(id_);  // its id is not said to anybody
}

// --- RESUME ---------------------------------------------------------------------------------------------------------

// There is room for the longest state before it is taken.
Status SessionKeeper::resume(base::SessionId id) {
  if (phase_ != Phase::kNothing || session_.graph().nodes() > left_out_.size())
    return failure(Code::kFailedPrecondition, "it has to come before all nodes and other actions of the session");
  if (Status s = enlist(); !s.ok()) return s;
  const wire::Request& request = session_.exchange().request();
  const session::Tenant who{0, marshal::tenant_of(request)};
  reading_ = charge(session_, Handover::kLargestState);
  Status s;
  if (!reading_)
    s = base::try_again(Code::kResourceExhausted, "there is no memory to resume the session; try again later");
  else if (!state_.searches.begin(who))
    s = base::try_again(Code::kResourceExhausted,
                        "too many sessions of this client are being looked for; try again later");
  if (!s.ok()) {
    forget();
    return s;
  }
  id_ = id;
  phase_ = Phase::kTaking;
  outcome_ = {};
  auto then = [&state = state_, number = number_, room = reading_, who, id](Taken taken) {
    state.searches.end(who);
    if (!state.keepers.contains(number) && taken && *taken) state.options.handover->let_go(id);
    with(state, number, [&](SessionKeeper& keeper) { keeper.taken(std::move(taken)); });
  };
  state_.options.handover->take(id, marshal::name_of_tenant(request), state_.options.shard, std::move(then));
  return {};
}

void SessionKeeper::taken(Taken state) {
  if (!state) return refuse(state.error());
  if (!*state) return refuse(failure(Code::kNotFound, "there is no such session"));
  phase_ = Phase::kReading;
  hold();
  if (lost()) return refuse(cut_off());
  (void)reading_->hold((*state)->size());
  reader_.emplace(session_.graph(), &state_.turn_budget);
  times_set_ = 0;
  if (Status s = reader_->begin(std::move(**state)); !s.ok()) refuse(std::move(s));
}

// Whoever comes next may have it.
void SessionKeeper::refuse(Status why) {
  if (phase_ == Phase::kReading) state_.options.handover->let_go(id_);
  phase_ = Phase::kNothing;
  forget();
  outcome_ = std::move(why);
  session_.actions().resume();
}

bool SessionKeeper::read_on() {
  if (Status s = reader_->go_on(); !s.ok()) {
    session_.abort(std::move(s));  // with half a graph
    return false;
  }
  if (!reader_->done() || !set_times(session_, reader_->times(), times_set_)) return false;
  session_.clock().set_age(reader_->age());
  reader_.reset(), reading_.reset();
  phase_ = Phase::kHeld;
  last_begun_ = state_.bus.env().now();
  wake_at(last_begun_ + state_.options.kept / 2);
  session_.actions().resume();
  return true;
}

// --- both -----------------------------------------------------------------------------------------------------------

bool SessionKeeper::go_on() {
  if (lost()) {
    session_.abort(cut_off());
    return false;
  }
  if (phase_ == Phase::kReading) return read_on();
  if (may_save()) {
    if (state_.turn_budget.spent()) return false;
    save();
    return true;
  }
  if (const base::Time next = next_save(); next != base::kNever) wake_at(next);
  return false;
}

void SessionKeeper::end(Then then) {
  const bool ours = !lost() && last_save_.code != Code::kAborted;
  const Phase was = phase_;
  // All sessions of a connection end in one turn: of large ones, those that it has time for are written.
  const bool has_time = session_.graph().memory().used() <= kSmall || !state_.turn_budget.spent();
  const base::Duration old = state_.bus.env().now() - last_begun_;
  const bool worth_it = changed_ || due_ || old >= (session_.ttls().empty() ? kUnchanged : kTimesUnchanged);
  if (was == Phase::kHeld && ours && then == Then::kSaved && has_time && worth_it)
    (void)base::attempt("the last save of a session", [this] { save(); });
  const bool gone = ours && then == Then::kGone && was != Phase::kReading;
  // One that is still being taken is let go when it comes.
  if (has()) gone ? state_.options.handover->end(id_) : state_.options.handover->let_go(id_);
  phase_ = Phase::kNothing;
  forget();
}

}  // namespace weir::evergreen
