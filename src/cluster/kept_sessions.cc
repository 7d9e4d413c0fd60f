#include "cluster/kept_sessions.h"

#include <algorithm>

namespace weir::cluster {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr uint8_t kMostClaims = 2;        // of one write
constexpr size_t kMostToErase = 1 << 16;  // sessions
constexpr size_t kRetriedAtOnce = 64;     // sessions
constexpr auto kRetryUnkept = std::chrono::seconds(1);

Status no_lease() {
  return base::try_again(Code::kUnavailable,
                         "this node is cut off from NATS, and another one may have the session: try again later");
}

// Takes those who wait for the session to be let go.
Ownership::Done tells_all(std::map<std::string, std::vector<Ownership::Done>>& leaving, const std::string& id) {
  auto node = leaving.extract(id);
  std::vector<Ownership::Done> thens;
  if (!node.empty()) thens = std::move(node.mapped());
  return [thens = std::move(thens)](const Status& status) {
    for (const auto& then : thens) then(status);
  };
}

}  // namespace

KeptSessions::~KeptSessions() {
  env_.cancel(timer_);
  for (const auto& [number, timer] : timers_) env_.cancel(timer);
}

void KeptSessions::later(base::Duration after, std::function<void()> work) {
  const uint64_t number = ++last_timer_;
  timers_[number] = env_.at(env_.now() + after, [this, number, work = std::move(work)] {
    timers_.erase(number);
    work();
  });
}

// --- what this node's sessions are ----------------------------------------------------------------------------------

void KeptSessions::save(const std::string& id, std::string state, Ownership::Done then, Tells tells) {
  auto [found, fresh] = writing_.try_emplace(id);
  Writing& writing = found->second;
  writing.waiting.emplace_back(std::move(then), tells);
  if (!fresh) {
    writing.next = std::move(state);
    return;
  }
  writing.since = env_.now();
  write(id, std::move(state));
}

// This node may own a record that is newer than what the state follows on: whoever looks for the session here may have
// taken it from another node while the state waited.
void KeptSessions::write(const std::string& id, std::string state) {
  const auto last = turns_.find(id);
  if (ownership_.owns(id) && last != turns_.end() && last->second.may_be(ownership_.turn_of(id))) {
    last->second = {ownership_.turn_of(id)};
    return write_owned(id, state);
  }
  if (ownership_.owns(id) || (last != turns_.end() && !unwritten_.contains(id))) return claim(id, state);
  open(id, state);
}

void KeptSessions::open(const std::string& id, const std::string& state) {
  const bool first = !turns_.contains(id) || unwritten_.contains(id);
  turns_[id] = {};
  if (!membership_.has_lease()) {
    if (first) unwritten_.insert(id);
    return written(id, state, failure(Code::kUnavailable, "the bucket is away"));
  }
  unwritten_.erase(id);
  ownership_.open(id, state, [this, id, state](const Status& status) {
    if (status.code == Code::kAlreadyExists) return claim(id, state);
    written(id, state, status);
  });
}

void KeptSessions::write_owned(const std::string& id, const std::string& state) {
  ownership_.commit(id, state, [this, id, state](const Status& status) {
    KeptTurn& last = turns_[id];
    if (status.ok()) last = {ownership_.turn_of(id)};
    if (status.code == Code::kUnavailable) last.maybe_one_more = true;
    // Its time in the bucket may have been over: the record says whose it is.
    if (status.code == Code::kAborted) return claim(id, state);
    written(id, state, status);
  });
}

// This node does not know that it has the session: what is there must be what it wrote last.
void KeptSessions::claim(const std::string& id, const std::string& state) {
  if (++writing_[id].claims > kMostClaims)
    return written(id, state, failure(Code::kAborted, "another node has the session"));
  auto taken = [this, id, state](base::Result<Record> record) {
    if (record && !turns_[id].may_be(record->turn))
      return written(id, state, failure(Code::kAborted, "another node has gone on with the session"));
    if (record) {
      turns_[id] = {record->turn};
      return write_owned(id, state);
    }
    Status why = record.error();
    if (why.code == Code::kNotFound) return open(id, state);
    if (why.code == Code::kUnavailable) writing_[id].claims = 0;  // it has told nothing
    if (why.code == Code::kFailedPrecondition) why = failure(Code::kAborted, "another node has the session");
    if (why.code == Code::kDataLoss) why.code = Code::kResourceExhausted;
    written(id, state, why);
  };
  ownership_.take(id, std::move(taken), [this, id](const Record& record) {
    turns_[id].note_writer(record.owner == membership_.self().id);
    return Status();
  });
}

void KeptSessions::written(const std::string& id, const std::string& state, const Status& status) {
  if (status.ok() || status.code == Code::kAborted) {
    clear_unkept(id);
    unwritten_.erase(id);
    if (!status.ok()) turns_.erase(id), ++dropped_;
    return over(id, status, status);
  }
  const bool worth_it = status.code == Code::kUnavailable && membership_.reaches_bucket() &&
                        env_.now() - writing_[id].since < limits_.write_patience;
  if (worth_it) return later(limits_.retry, [this, id, state] { write(id, writing_[id].next.value_or(state)); });
  if (status.code == Code::kUnavailable)
    set_unkept(id, writing_[id].next.value_or(state));
  else
    ++dropped_;
  over(id, may_go_on(id) ? Status() : no_lease(), status);
}

bool KeptSessions::may_go_on(const std::string& id) const {
  const auto turn = turns_.find(id);
  return unwritten_.contains(id) || (membership_.has_lease() && !(turn != turns_.end() && turn->second.fenced));
}

void KeptSessions::over(const std::string& id, const Status& answer, const Status& kept) {
  Writing& writing = writing_[id];
  if (writing.next && answer.ok() && !writing.ending) {
    std::string state = *std::move(writing.next);
    writing.next.reset();
    writing.claims = 0, writing.since = env_.now();
    return write(id, std::move(state));
  }
  auto node = writing_.extract(id);
  if (node.mapped().ending) erase(id);
  for (auto& [then, tells] : node.mapped().waiting) then(tells == Tells::kWhetherKept ? kept : answer);
  if (leaving_.contains(id)) release(id, nullptr);
}

void KeptSessions::set_unkept(const std::string& id, const std::string& state) {
  clear_unkept(id);
  const uint64_t moved = id.starts_with(kMovedPrefix) ? state.size() : 0;
  if (unkept_bytes_ + state.size() > limits_.unkept_bytes ||
      (moved > 0 && unkept_moved_bytes_ + moved > limits_.unkept_bytes / 2))
    return void(++dropped_);
  unkept_bytes_ += state.size(), unkept_moved_bytes_ += moved;
  unkept_[id] = state;
  arm();
}

void KeptSessions::clear_unkept(const std::string& id) {
  auto found = unkept_.find(id);
  if (found == unkept_.end()) return;
  unkept_bytes_ -= found->second.size();
  if (id.starts_with(kMovedPrefix)) unkept_moved_bytes_ -= found->second.size();
  unkept_.erase(found);
}

void KeptSessions::end(const std::string& id) {
  auto found = writing_.find(id);
  if (found != writing_.end())
    found->second.ending = true;
  else
    erase(id);
}

void KeptSessions::erase(const std::string& id) {
  tells_all(leaving_, id)({});
  clear_unkept(id);
  turns_.erase(id);
  if (unwritten_.erase(id)) return;
  auto done = [this, id](const Status& status) {
    if (status.code != Code::kUnavailable || to_erase_.size() >= kMostToErase) return;
    to_erase_.push_back(id);
    arm();
  };
  if (ownership_.owns(id)) return ownership_.close(id, done);
  ownership_.take(id, [this, id, done](const base::Result<Record>& record) {
    record ? ownership_.close(id, done) : done(record.error());
  });
}

// One that waits for the bucket is let go when it has been written: over() comes back. Of one that is not owned the
// record may name this node all the same: a write's answer was lost, or a release has failed.
void KeptSessions::release(const std::string& id, Ownership::Done then) {
  auto& leaving = leaving_[id];
  if (then) leaving.push_back(std::move(then));
  if (writing_.contains(id)) return;
  if (unkept_.contains(id)) {
    for (auto& told : std::exchange(leaving, {})) told(failure(Code::kUnavailable, "the session is not written yet"));
    return;
  }
  turns_.erase(id);
  if (ownership_.owns(id)) return ownership_.release(id, tells_all(leaving_, id));
  if (!looked_up_.insert(id).second) return;
  // Meanwhile somebody here may take it, by finish(), or write it: over() comes back.
  auto looked = [this, id](const base::Result<Record>& record) {
    looked_up_.erase(id);
    if (!leaving_.contains(id) || writing_.contains(id)) return;
    if (record) return ownership_.release(id, tells_all(leaving_, id));
    const Code code = record.error().code;
    const bool others = code == Code::kNotFound || code == Code::kFailedPrecondition || code == Code::kAborted;
    tells_all(leaving_, id)(others ? Status() : record.error());
  };
  auto others_stay = [](const Record&) { return failure(Code::kAborted, "another node had the session"); };
  ownership_.take(id, std::move(looked), others_stay);
}

void KeptSessions::release_all(const Holds& holds) {
  for (const auto& id : ownership_.owned())
    if (!writing_.contains(id) && !(holds && holds(id))) ownership_.release(id, [](const Status&) {});
}

void KeptSessions::drop_all() {
  ownership_.drop_all();
  // One that is being written was written before: it has to be claimed, and is no new one.
  std::erase_if(turns_,
                [this](const auto& one) { return !unkept_.contains(one.first) && !writing_.contains(one.first); });
  for (auto& [id, turn] : turns_) turn.fenced = true;
}

void KeptSessions::arm() {
  if (timer_ != base::TimerId::kNone || (unkept_.empty() && to_erase_.empty())) return;
  timer_ = env_.at(env_.now() + kRetryUnkept, [this] {
    timer_ = base::TimerId::kNone;
    if (membership_.reaches_bucket() && membership_.has_lease()) retry_all();
    arm();
  });
}

void KeptSessions::retry_all() {
  std::vector<std::pair<std::string, std::string>> again;
  for (const auto& [id, state] : unkept_) {
    if (again.size() == kRetriedAtOnce) break;
    if (!writing_.contains(id)) again.emplace_back(id, state);
  }
  for (auto& [id, state] : again) save(id, std::move(state), [](const Status&) {});
  for (size_t n = std::min(kRetriedAtOnce, to_erase_.size()); n > 0; --n) {
    const std::string id = std::move(to_erase_.front());
    to_erase_.pop_front();
    erase(id);
  }
}

// --- where a session is ---------------------------------------------------------------------------------------------

void KeptSessions::find(const std::string& id, std::string unreachable, Found then, Mover mover) {
  if (searching_ >= limits_.waiting)
    return then(base::try_again(Code::kResourceExhausted, "too many sessions are being looked for; try again later"));
  ++searching_;
  look(id, std::make_shared<Search>(
               Search{id, std::move(unreachable), std::move(then), env_.now() + limits_.patience, std::move(mover)}));
}

// A session that this node had already has not been shown to accept().
void KeptSessions::finish(const Search& search, base::Result<Place> place) {
  --searching_;
  if (place && place->where == Place::Where::kHere) {
    const Status ours = search.mover.accept ? search.mover.accept(place->state) : Status();
    if (ours.ok())
      tells_all(leaving_, search.id)(failure(Code::kUnavailable, "another connection has taken the session"));
    else
      place = ours.code == Code::kNotFound ? base::Result<Place>(Place{}) : base::Result<Place>(ours);
  }
  search.then(std::move(place));
}

void KeptSessions::look(const std::string& id, const std::shared_ptr<Search>& search) {
  if (!membership_.reaches_bucket() && !membership_.watches()) {
    if (unkept_.contains(id) && may_go_on(id)) return finish(*search, Place{Place::Where::kHere, unkept_[id], ""});
    return finish(*search,
                  turns_.contains(id)
                      ? no_lease()
                      : base::try_again(Code::kUnavailable,
                                        "NATS is away, and without it nobody knows which node has the session"));
  }
  // A state that is being written is newer than what would be taken, and would be written behind whoever takes that.
  if (writing_.contains(id)) return look_later(id, search, "the session is being written");
  auto accept = [this, search](const Record& record) {
    if (auto mine = turns_.find(search->id); mine != turns_.end())
      mine->second.note_writer(record.owner == membership_.self().id);
    search->state = record.state;
    return search->mover.accept ? search->mover.accept(record.state) : can_take_(record.state);
  };
  ownership_.take(
      id, [this, id, search](base::Result<Record> record) { looked(id, search, std::move(record)); }, accept);
}

void KeptSessions::looked(const std::string& id, const std::shared_ptr<Search>& search, base::Result<Record> record) {
  using Where = Place::Where;
  if (record && writing_.contains(id)) return look_later(id, search, "the session is being written");
  if (record) {
    auto mine = unkept_.find(id);
    const bool newer = mine != unkept_.end() && turns_.contains(id) && turns_[id].may_be(record->turn);
    if (!newer) clear_unkept(id), ++taken_;
    turns_[id] = {record->turn};
    return finish(*search, Place{Where::kHere, newer ? mine->second : std::move(record->state), ""});
  }
  const Status& why = record.error();
  switch (why.code) {
    case Code::kNotFound:
      if (auto mine = unkept_.find(id); mine != unkept_.end())
        return finish(*search, Place{Where::kHere, mine->second, ""});
      return finish(*search, Place{});
    case Code::kUnimplemented: return finish(*search, Place{Where::kNode, search->state, ""});
    case Code::kFailedPrecondition: {
      std::string owner = ownership_.owner_of(id);
      if (search->mover.ask)
        return search->mover.ask(owner, [this, id, search, owner](const Status& let_go) {
          if (let_go.code == Code::kNotFound) return finish(*search, Place{});
          if (let_go.ok() && search->asked++ == 0) return look(id, search);
          look_later(id, search, let_go.ok() ? "others ask for it, too" : "node '" + owner + "': " + let_go.text);
        });
      if (owner != search->unreachable) return finish(*search, Place{Where::kNode, "", std::move(owner)});
      return look_later(id, search, "the node '" + owner + "', which has the session, does not answer");
    }
    case Code::kUnavailable: return look_later(id, search, why.text);
    case Code::kDataLoss: ++refused_; [[fallthrough]];
    default: return finish(*search, why);
  }
}

void KeptSessions::look_later(const std::string& id, const std::shared_ptr<Search>& search, const std::string& why) {
  if (env_.now() >= search->until) return finish(*search, base::try_again(Code::kUnavailable, why));
  later(limits_.retry, [this, id, search] { look(id, search); });
}

}  // namespace weir::cluster
