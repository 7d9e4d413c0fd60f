#include "session/sessions.h"

#include <memory>

#include "base/check.h"
#include "session/session_id.h"

namespace weir::session {
namespace {

constexpr auto kRetry = std::chrono::seconds(1);

base::Status no_claim() {
  return base::try_again(base::Code::kUnavailable,
                         "this node does not know any more that it has the session: try again later");
}
base::Status moved_away() {
  return base::explained(base::Code::kAborted, "another node has taken the session meanwhile: send this again",
                         "SESSION_MOVED");
}

}  // namespace

void Homes::post(base::ShardId shard, std::function<void(Sessions&)> work) const {
  post_(shard, [&there = *by_shard_[size_t(shard)], work = std::move(work)] { work(there); });
}

Sessions::Sessions(bus::Bus& bus, base::ShardId self, Homes& homes, Quota& quota, SessionLimits limits,
                   base::Metrics& metrics, OtherNodes* others)
    : bus_(bus),
      self_(self),
      homes_(homes),
      others_(others),
      table_(
          bus.env(), self, homes.shards(), quota, limits,
          [this](base::SessionId id, const SessionModel& model, SessionTable::EverLent ever_lent) {
            if (ever_lent == SessionTable::EverLent::kYes) release(id, model);
            count();
          },
          keeping(others)),
      sessions_(metrics.gauge("weir_sessions", "Sessions that live now.")),
      bytes_(metrics.gauge("weir_session_bytes", "Tokens and images of sessions.")),
      opened_(metrics.counter("weir_sessions_opened_total", "Sessions opened or forked.")) {
  homes_.add(self, *this);
}

Sessions::~Sessions() { bus_.env().cancel(timer_); }

void Sessions::at(base::ShardId shard, std::function<void(Sessions&)> work) {
  if (shard == self_) return work(*this);
  homes_.post(shard, std::move(work));
}

// Runs `question` at the session's home, and what that returns here.
void Sessions::ask(base::SessionId id, std::function<std::function<void()>(Sessions& home)> question) {
  at(home_of(id, homes_.shards()), [this, question = std::move(question)](Sessions& home) {
    auto answer = question(home);
    home.count();
    home.at(self_, [answer = std::move(answer)](Sessions&) { answer(); });
  });
}

Keeping Sessions::keeping(OtherNodes* others) {
  if (!others) return {};
  return {others->tag(), [others] { return others->epoch(); }, [others](base::SessionId id) { others->end(id); }};
}

base::Result<base::SessionId> Sessions::open(Tenant tenant, SessionModel model, base::ClientRef client,
                                             std::string tenant_name) {
  auto id = table_.open(tenant, std::move(model), std::move(client), std::move(tenant_name));
  if (id) opened_.add();
  count();
  return id;
}

void Sessions::close(Tenant tenant, base::SessionId id, std::function<void()> then) {
  ask(id, [tenant, id, then = std::move(then)](Sessions& home) {
    if (auto lease = home.table_.close(tenant, id))
      home.at(home.borrowed_at_.at(*lease), [key = LeaseKey(home.self_, *lease)](Sessions& s) { s.revoke(key); });
    return then;
  });
}

void Sessions::fork(Tenant tenant, base::SessionId id, uint32_t at_position, Then<base::SessionId> then) {
  ask(id, [tenant, id, at_position, then = std::move(then)](Sessions& home) {
    auto made = home.table_.fork(tenant, id, at_position);
    if (made) home.opened_.add();
    return [then, made = std::move(made)] { then(made); };
  });
}

void Sessions::dump(Tenant tenant, base::SessionId id, Then<std::vector<uint32_t>> then) {
  ask(id, [tenant, id, then = std::move(then)](Sessions& home) {
    return [then, tokens = home.table_.dump(tenant, id)]() mutable { then(std::move(tokens)); };
  });
}

void Sessions::borrow(Tenant tenant, base::SessionId id, const Append& append, Borrower& borrower) {
  ask(id, [this, tenant, id, append, &borrower](Sessions& home) {
    auto lease = home.table_.begin(tenant, id, append);
    if (lease) home.borrowed_at_.emplace(lease->serial, self_);
    return [this, lease = std::move(lease), &borrower]() mutable { grant(std::move(lease), borrower); };
  });
}

void Sessions::grant(base::Result<Lease> lease, Borrower& borrower) {
  if (lease) borrowers_.emplace(LeaseKey(lease->home, lease->serial), &borrower);
  borrower.granted(std::move(lease));
}

// The lease may be on its way back already.
void Sessions::revoke(LeaseKey key) {
  if (auto found = borrowers_.find(key); found != borrowers_.end()) found->second->revoked();
}

void Sessions::give_back(const Lease& lease, Outcome outcome) {
  size_t known = borrowers_.erase({lease.home, lease.serial});
  base::check(known == 1, "a lease is given back once, where it was granted");
  at(lease.home, [serial = lease.serial, outcome = std::move(outcome)](Sessions& home) mutable {
    home.borrowed_at_.erase(serial);
    home.table_.settle(serial, std::move(outcome));
    home.count();
  });
}

void Sessions::give_back(const Lease& lease, Outcome outcome, OtherNodes::Done then) {
  if (!others_) {
    give_back(lease, std::move(outcome));
    return then({});
  }
  base::check(borrowers_.erase({lease.home, lease.serial}) == 1, "a lease is given back once, where it was granted");
  auto back = [this, then = std::move(then)](Sessions& home, base::Status status) {
    home.at(self_, [then, status = std::move(status)](Sessions&) { then(status); });
  };
  at(lease.home, [serial = lease.serial, tenant = lease.tenant, id = lease.session, outcome = std::move(outcome),
                  back = std::move(back)](Sessions& home) mutable {
    home.borrowed_at_.erase(serial);
    const bool here = home.table_.settle(serial, std::move(outcome));
    home.count();
    if (!here) return back(home, moved_away());
    home.keep_here(tenant, id, [&home, back](base::Status status) { back(home, std::move(status)); });
  });
}

void Sessions::knows(Tenant tenant, base::SessionId id, std::function<void(bool)> then) {
  ask(id, [tenant, id, then = std::move(then)](Sessions& home) {
    return [then, known = home.table_.knows(tenant, id)] { then(known); };
  });
}

void Sessions::keep(Tenant tenant, base::SessionId id, OtherNodes::Done then) {
  if (!others_) return then({});
  at(home_of(id, homes_.shards()), [this, tenant, id, then = std::move(then)](Sessions& home) mutable {
    home.keep_here(tenant, id, [this, &home, then = std::move(then)](base::Status status) {
      home.at(self_, [then, status = std::move(status)](Sessions&) { then(status); });
    });
  });
}

void Sessions::keep_here(Tenant tenant, base::SessionId id, OtherNodes::Done then) {
  const auto state = table_.state(tenant, id);
  if (!state) return then(table_.holds(tenant, id) ? no_claim() : base::Status());
  others_->save(id, write_state(*state), self_, [this, tenant, id, then = std::move(then)](base::Status status) {
    if (status.code == base::Code::kAborted) table_.forget(tenant, id), count();
    then(std::move(status));
  });
}

void Sessions::adopt(Tenant tenant, base::SessionId id, SessionModel model, SessionState state, OtherNodes::Done then) {
  ask(id,
      [tenant, id, model = std::move(model), state = std::move(state), then = std::move(then)](Sessions& home) mutable {
        return [then, status = home.table_.adopt(tenant, id, std::move(model), std::move(state))] { then(status); };
      });
}

// The engine may keep things for the session. A model that has gone, or was loaded again, keeps nothing.
void Sessions::release(base::SessionId id, const SessionModel& model) {
  if (try_release(id, model)) return;
  to_release_.emplace_back(id, model);
  if (to_release_.size() == 1) timer_ = bus_.env().at(bus_.env().now() + kRetry, [this] { release_again(); });
}

void Sessions::release_again() {
  while (!to_release_.empty() && try_release(to_release_.front().first, to_release_.front().second))
    to_release_.pop_front();
  if (!to_release_.empty()) timer_ = bus_.env().at(bus_.env().now() + kRetry, [this] { release_again(); });
}

// False if it is worth trying again.
bool Sessions::try_release(base::SessionId id, const SessionModel& model) {
  auto served = bus_.catalog().find(model.name, model.version);
  if (!served || !model.is((*served)->spec)) return true;
  msg::Call* call = bus_.make_call();
  call->model = model.name;
  call->version = model.version;
  call->session = id;
  call->sink = this;
  call->generation = std::make_unique<msg::Generation>();
  call->generation->aim = msg::Aim::kRelease;
  base::Status status = bus_.submit(call, **served);
  if (!status.ok()) bus_.discard(call);
  return status.code != base::Code::kResourceExhausted;
}

void Sessions::count() {
  sessions_.set(int64_t(table_.sessions()));
  bytes_.set(int64_t(table_.bytes()));
}

}  // namespace weir::session
