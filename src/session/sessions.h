// Sessions: one shard's access to the sessions of all shards. For a session of this shard the answer comes before the
// function returns; for one of another shard it comes later, on this shard. One per shard, used on its thread.
//
// A Generate that runs on one shard in a session of another:
//
//   shard of the client: borrow() ─────────▶ home: SessionTable::begin() lends the tokens
//                 granted(lease) ◀─────────
//   submits a Call that reads them; Events …
//   the Call's last Event: give_back() ────▶ home: SessionTable::settle()
//
// The rule that keeps this safe: give_back() comes after the Call's last Event and never before, also when the client
// has left (CallHandle::cancel(), not abandon()), since until then the engine may read the lent tokens. Home writes to
// them only in settle(), which that post happens before. Who has submitted nothing gives back at once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "bus/bus.h"
#include "session/other_nodes.h"
#include "session/session_table.h"

namespace weir::session {

class Sessions;

// Which shards there are, and how work gets from one to another. Complete before the first shard starts, then only
// read.
class Homes {
 public:
  // `post` runs `work` on that shard's thread, in the order of posting; from any shard's.
  using Post = std::function<void(base::ShardId shard, std::function<void()> work)>;
  Homes(size_t shards, Post post) : by_shard_(shards), post_(std::move(post)) {}

  size_t shards() const { return by_shard_.size(); }
  void add(base::ShardId shard, Sessions& sessions) { by_shard_.at(size_t(shard)) = &sessions; }
  // Runs `work` on the thread of those sessions.
  void post(base::ShardId shard, std::function<void(Sessions&)> work) const;

 private:
  std::vector<Sessions*> by_shard_;
  Post post_;
};

// The owner of a running Generate. It lives until it has given the lease back, or has been told that there is none.
class Borrower {
 public:
  // Once, from inside borrow() or later.
  virtual void granted(base::Result<Lease> lease) = 0;
  // The session has been closed: end soon, and give back as always.
  virtual void revoked() = 0;

 protected:
  ~Borrower() = default;
};

class Sessions final : private msg::Sink {
 public:
  // All borrowed; they outlive this. Must live until no shard posts any more. `others`: null where the node is alone.
  Sessions(bus::Bus& bus, base::ShardId self, Homes& homes, Quota& quota, SessionLimits limits, base::Metrics& metrics,
           OtherNodes* others = nullptr);
  ~Sessions();

  template <class T>
  using Then = std::function<void(base::Result<T>)>;

  // Opens it on this shard.
  base::Result<base::SessionId> open(Tenant tenant, SessionModel model, base::ClientRef client = {},
                                     std::string tenant_name = {});
  // The others as SessionTable says, by the id's home.
  void close(Tenant tenant, base::SessionId id, std::function<void()> then);
  void fork(Tenant tenant, base::SessionId id, uint32_t at, Then<base::SessionId> then);
  void dump(Tenant tenant, base::SessionId id, Then<std::vector<uint32_t>> then);

  void borrow(Tenant tenant, base::SessionId id, const Append& append, Borrower& borrower);
  // After the last Event of a Call that read the lease; see above.
  void give_back(const Lease& lease, Outcome outcome);
  // The same; `then` is called here once the session is kept for other nodes: at once where there are none. ABORTED:
  // another node has it.
  void give_back(const Lease& lease, Outcome outcome, OtherNodes::Done then);

  // --- Where there are other nodes; each answers here, later or at once.
  void knows(Tenant tenant, base::SessionId id, std::function<void(bool)> then);
  // Keeps the session as it is; OK where it is not here (any more). ABORTED: another node has it.
  void keep(Tenant tenant, base::SessionId id, OtherNodes::Done then);
  // As SessionTable says.
  void adopt(Tenant tenant, base::SessionId id, SessionModel model, SessionState state, OtherNodes::Done then);
  OtherNodes* others() const { return others_; }
  base::ShardId shard() const { return self_; }

  const SessionTable& table() const { return table_; }  // of those that live here

 private:
  using LeaseKey = std::pair<base::ShardId, uint64_t>;

  static Keeping keeping(OtherNodes* others);
  void keep_here(Tenant tenant, base::SessionId id, OtherNodes::Done then);
  void at(base::ShardId shard, std::function<void(Sessions&)> work);
  void ask(base::SessionId id, std::function<std::function<void()>(Sessions& home)> question);
  void grant(base::Result<Lease> lease, Borrower& borrower);
  void revoke(LeaseKey key);
  void release(base::SessionId id, const SessionModel& model);
  void release_again();
  bool try_release(base::SessionId id, const SessionModel& model);
  void count();
  void on(msg::Call&, msg::Event&&) override {}  // of a release

  bus::Bus& bus_;
  base::ShardId self_;
  Homes& homes_;
  OtherNodes* const others_;
  SessionTable table_;
  std::map<LeaseKey, Borrower*> borrowers_;                          // on this shard
  std::unordered_map<uint64_t, base::ShardId> borrowed_at_;          // leases of sessions that live here
  std::deque<std::pair<base::SessionId, SessionModel>> to_release_;  // the bus had no room
  base::TimerId timer_ = base::TimerId::kNone;
  base::Gauge& sessions_;
  base::Gauge& bytes_;
  base::Counter& opened_;
};

}  // namespace weir::session
