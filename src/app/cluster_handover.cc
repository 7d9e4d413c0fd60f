#include "app/cluster_handover.h"

#include "base/clock.h"
#include "base/log.h"
#include "session/session_id.h"

namespace weir::app {
namespace {

using base::Code;
using base::failure;
using base::Status;
using session::Handover;
using Kept = cluster::KeptSessions::Place::Where;
using State = base::Result<std::optional<std::string>>;

// A session of tokens may not be asked for by such a name, nor the other way round.
std::string key_of(base::SessionId id) { return std::string(cluster::kMovedPrefix) + session::text(id); }
bool is_key(std::string_view key) {
  return key.starts_with(cluster::kMovedPrefix) &&
         session::parse_session_id(key.substr(cluster::kMovedPrefix.size())).has_value();
}

Status no_such_session() { return failure(Code::kNotFound, "there is no such session"); }
Status server_ends() { return failure(Code::kUnavailable, "the server is shutting down"); }
Status asked_for_by_others() {
  return base::try_again(Code::kUnavailable, "other connections ask for the session, too; try again later");
}

}  // namespace

Status ClusterHandover::accept(const std::string& state, const std::string& whose) {
  auto read = session::read_held(state, whose);
  return read ? Status() : read.error();
}

bool ClusterHandover::holds(const std::string& key) const {
  std::lock_guard lock(mutex_);
  return held_.contains(key);
}

// Under mutex_. kWaits: `then` is told, on any thread, when the shard has let the session go.
ClusterHandover::Asked ClusterHandover::ask_shard(const std::string& key, Held& held, const std::string& whose,
                                                  Done then) {
  if (held.whose != whose) return Asked::kNotYours;
  if (!held.leave || held.waiting.size() >= kMostWaiting) return Asked::kBusy;
  const uint64_t number = ++last_waiting_;
  if (!cluster_->after(kPatience, [this, key, number] { give_up(key, number); })) return Asked::kBusy;
  held.waiting.emplace(number, std::move(then));
  post_(held.shard, held.leave);
  return Asked::kWaits;
}

// The shard has not let the session go in time.
void ClusterHandover::give_up(const std::string& key, uint64_t number) {
  std::map<uint64_t, Done>::node_type waited;
  {
    std::lock_guard lock(mutex_);
    auto held = held_.find(key);
    if (held != held_.end()) waited = held->second.waiting.extract(number);
  }
  if (!waited.empty()) waited.mapped()(asked_for_by_others());
}

// This node may own a session that nobody here holds, as after a write whose answer was lost.
void ClusterHandover::leave(const std::string& key, const std::string& whose, Done then) {
  if (!is_key(key)) return then(no_such_session());
  Status status;
  {
    std::lock_guard lock(mutex_);
    auto taking = taking_.lower_bound({key, ""});
    if (auto held = held_.find(key); held != held_.end()) {
      const Asked asked = ask_shard(key, held->second, whose, then);
      if (asked == Asked::kWaits) return;
      status = asked == Asked::kNotYours ? no_such_session() : asked_for_by_others();
    } else if (taking != taking_.end() && taking->first == key) {
      status = asked_for_by_others();  // by one of them it is being taken
    } else if (cluster_->release_session(key, then)) {
      return;
    } else {
      status = server_ends();
    }
  }
  then(status);
}

void ClusterHandover::hold(base::SessionId id, std::string whose, base::ShardId shard, std::function<void()> leave) {
  std::lock_guard lock(mutex_);
  Held& held = held_[key_of(id)];
  held.whose = std::move(whose), held.shard = shard, held.leave = std::move(leave);
}

void ClusterHandover::save(base::SessionId id, std::string state, base::ShardId shard, Done then) {
  auto back = [this, shard, then = std::move(then)](Status status) {
    post_(shard, [then, status = std::move(status)] { then(status); });
  };
  const std::string key = key_of(id);
  std::string whose;
  {
    std::lock_guard lock(mutex_);
    auto held = held_.find(key);
    if (held == held_.end()) return back(failure(Code::kAborted, "nobody here has the session"));
    whose = held->second.whose;
    if (!kept_.set(key, whose, state.size(), base::steady_now()))
      return back(base::try_again(Code::kResourceExhausted,
                                  "this client, or all together, keep too much in sessions that they have left"));
  }
  using Tells = cluster::KeptSessions::Tells;
  if (!cluster_->save_session(key, session::write_held(whose, state), back, Tells::kWhetherKept)) back(server_ends());
}

// Under mutex_: the session is not here any more. Whoever has waited for that.
std::vector<Handover::Done> ClusterHandover::forget(const std::string& key) {
  std::vector<Done> out;
  auto held = held_.extract(key);
  if (held.empty()) return out;
  for (auto& [number, then] : held.mapped().waiting) out.push_back(std::move(then));
  return out;
}

void ClusterHandover::let_go(base::SessionId id) {
  const std::string key = key_of(id);
  std::vector<Done> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting = forget(key);
    kept_.let_go(key, cluster_->sessions_last(), base::steady_now());
    auto told = [waiting](const Status& status) {
      for (const auto& then : waiting) then(status);
    };
    if (cluster_->release_session(key, told)) return;
  }
  for (const auto& then : waiting) then(server_ends());
}

void ClusterHandover::end(base::SessionId id) {
  const std::string key = key_of(id);
  std::vector<Done> waiting;
  {
    std::lock_guard lock(mutex_);
    cluster_->end_session(key);
    waiting = forget(key);
    kept_.forget(key);
  }
  for (const auto& then : waiting) then(no_such_session());
}

// A shard of this server that has the session is asked first. When it has let go, the record says how it is.
void ClusterHandover::take(base::SessionId id, std::string whose, base::ShardId shard, Taken then) {
  const std::string key = key_of(id);
  auto back = [this, shard, then](State state) {
    post_(shard, [then, state = std::move(state)]() mutable { then(std::move(state)); });
  };
  auto when_let_go = [this, key, whose, shard, then, back](const Status& status) {
    status.code == Code::kNotFound ? back(std::optional<std::string>()) : take_from_others(key, whose, shard, then);
  };
  Asked asked = Asked::kNobody;
  {
    std::lock_guard lock(mutex_);
    if (auto held = held_.find(key); held != held_.end()) asked = ask_shard(key, held->second, whose, when_let_go);
  }
  if (asked == Asked::kNotYours) return back(std::optional<std::string>());
  if (asked == Asked::kBusy) return back(asked_for_by_others());
  if (asked == Asked::kNobody) take_from_others(key, whose, shard, then);
}

// One connection of a client at a time. Those of others are not kept out: whose the session is, is not known yet.
void ClusterHandover::take_from_others(const std::string& key, const std::string& whose, base::ShardId shard,
                                       const Taken& then) {
  auto back = [this, shard, then](State state) {
    post_(shard, [then, state = std::move(state)]() mutable { then(std::move(state)); });
  };
  auto moved = [this, key, whose, shard, back](base::Result<cluster::KeptSessions::Place> place) {
    auto state = [&]() -> State {
      if (!place) return place.error();
      if (place->where != Kept::kHere) return std::optional<std::string>();
      auto read = session::read_held(place->state, whose);
      if (!read) return read.error();
      return std::optional<std::string>(*read);
    }();
    if (!state && state.error().code == Code::kDataLoss)
      base::log::warning("a session is refused", {{"session", key}, {"reason", state.error().text}});
    {
      std::lock_guard lock(mutex_);
      taking_.erase({key, whose});
      if (state && *state) held_[key] = Held{whose, shard, {}, {}};
    }
    back(std::move(state));
  };
  State refused = std::optional<std::string>();
  {
    std::lock_guard lock(mutex_);
    auto held = held_.find(key);
    const bool is_held = held != held_.end(), is_his = !is_held || held->second.whose == whose;
    if (!is_held && taking_.emplace(key, whose).second) {
      if (cluster_->move_session(key, whose, moved)) return;
      taking_.erase({key, whose});
      refused = server_ends();
    } else if (is_his) {
      refused = asked_for_by_others();
    }
  }
  back(std::move(refused));
}

}  // namespace weir::app
