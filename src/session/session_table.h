// SessionTable: the sessions that live on one shard: their tokens, their images, who may have them, how long, how big.
// Pure: it knows the world as an Env only. That shard's thread.
//
// A Generate borrows a session: begin() checks the client's view and lends what the session has up to there, settle()
// gives it back with what came of it. What is lent neither moves nor changes meanwhile: a second begin() is ABORTED,
// and a session that is closed or expires while it is lent is gone for everybody at once but keeps its memory until
// settle(). What a Generate does to a session, the rewind included, happens in settle().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/client.h"
#include "base/env.h"
#include "base/ids.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "msg/generate.h"
#include "msg/spec.h"
#include "session/tenant.h"

namespace weir::session {

struct SessionLimits {
  uint32_t per_tenant = 1024;           // sessions, over all shards
  uint32_t depth = 16;                  // forks of forks
  uint32_t children = 64;               // forks of one session that live
  uint64_t bytes = uint64_t(64) << 20;  // tokens and images of one session
  // And of one tenant, where there are several, and of all, over all shards; passed by what a few begin at once, at
  // most.
  uint64_t tenant_bytes = uint64_t(512) << 20;
  uint64_t total_bytes = uint64_t(1) << 30;
  // The share of one client, once more than half of the sessions, or of the bytes, are in use.
  base::ShareRule share{.least = 16};
  base::Duration idle = std::chrono::minutes(30);
  base::Duration lifetime = std::chrono::hours(24);
};

// The model version that a session was opened on, as it was loaded then. Sessions keep no version loaded.
struct SessionModel {
  std::string name, version;
  std::weak_ptr<const msg::TextSpec> text;

  // Still that one? False for one that was loaded again since: its tokens may mean something else.
  bool is(const msg::ModelSpec& spec) const { return spec.text && text.lock() == spec.text; }
};

// The tokens that a Generate wants to append, and where.
struct Append {
  enum class Rewind : bool { kNo, kYes };
  uint32_t offset = 0;  // the length that the client believes in; with kYes it may be less than the session has
  Rewind rewind = Rewind::kNo;
  size_t tokens = 0, image_bytes = 0;
};

// The tokens of a session, lent. The spans are valid until settle().
struct Lease {
  base::SessionId session;
  base::ShardId home{};
  uint64_t serial = 0;  // unique on its home
  SessionModel model;
  std::span<const uint32_t> tokens;    // [0, offset)
  std::span<const msg::Image> images;  // those in them
};

// The result of a Generate: nothing (the session is as it was; only if no engine has had the lease, since what an
// engine keeps must begin like the session), or this behind the lease's tokens. The images' data is kept as it is: a
// slice of a request's slab would keep all of that.
struct Outcome {
  enum class Kind : uint8_t { kUnchanged, kAppended } kind = Kind::kUnchanged;
  std::vector<uint32_t> appended;
  std::vector<msg::Image> images;
  std::vector<uint32_t> generated;
};

// The error for a session that is not there, has gone, or is another tenant's.
base::Status no_such_session();

class SessionTable {
 public:
  // Told of every session that is over, once, when nobody has its memory any more.
  enum class Past : uint8_t { kNeverLent, kLent };  // kLent: the engine may keep things for it
  using Over = std::function<void(base::SessionId, const SessionModel&, Past)>;

  SessionTable(base::Env& env, base::ShardId home, size_t shards, Quota& quota, SessionLimits limits, Over over);
  ~SessionTable();
  SessionTable(const SessionTable&) = delete;

  // `client`: whose share it takes; empty: nobody's. Errors: RESOURCE_EXHAUSTED.
  base::Result<base::SessionId> open(Tenant tenant, SessionModel model, base::ClientRef client = {});
  // The serial of the lease that goes on, if there is one: who has it should end. A session that is not there is fine.
  std::optional<uint64_t> close(Tenant tenant, base::SessionId id);
  // A new session with what this one has before position `at`, in the share of the same client. Errors: NOT_FOUND,
  // FAILED_PRECONDITION (beyond the end; inside an image), RESOURCE_EXHAUSTED (depth, children, sessions, bytes).
  base::Result<base::SessionId> fork(Tenant tenant, base::SessionId id, uint32_t at);
  // While it is lent: what it had before. Errors: NOT_FOUND.
  base::Result<std::vector<uint32_t>> dump(Tenant tenant, base::SessionId id) const;

  // Errors, and nothing changes: NOT_FOUND, ABORTED (lent already), FAILED_PRECONDITION (the offset is not the length;
  // a rewind into an image), RESOURCE_EXHAUSTED (bytes).
  base::Result<Lease> begin(Tenant tenant, base::SessionId id, const Append& append);
  // Ends the lease. Counts as use.
  void settle(uint64_t serial, Outcome&& outcome);

  size_t sessions() const { return sessions_.size() + removed_while_lent_; }  // those that are closed but lent included
  uint64_t bytes() const { return bytes_; }                                   // of all

 private:
  struct Session;
  struct Key {
    Tenant tenant;
    base::SessionId id;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    base::KeyedHash hash;
    size_t operator()(const Key& key) const { return hash(key.id); }
  };
  using Sessions = std::unordered_map<Key, std::unique_ptr<Session>, Hash>;

  Session* find(Tenant tenant, base::SessionId id) const;
  base::Result<Session*> add(Tenant tenant, SessionModel model, base::ClientRef client);
  base::Status admit(Tenant tenant, const base::Client* client) const;
  void give(const Session& session);
  void touch(Session& session);
  void charge(Session& session);
  base::Status room(Tenant tenant, const base::Client* client, uint64_t more) const;
  void remove(Sessions::iterator at);
  void retire(std::unique_ptr<Session> session);
  void set_timer();
  void expire();

  base::Env& env_;
  base::ShardId home_;
  size_t shards_;
  Quota& quota_;
  SessionLimits limits_;
  Over over_;
  Sessions sessions_;
  std::map<std::pair<base::Time, uint64_t>, Session*> due_;  // by end and birth; those that nobody has borrowed
  struct Lent {
    Session* session;
    size_t tokens;                     // the lease's
    std::unique_ptr<Session> removed;  // closed or expired meanwhile
  };
  std::unordered_map<uint64_t, Lent> lent_;
  size_t removed_while_lent_ = 0;
  uint64_t bytes_ = 0, births_ = 0, leases_ = 0;
  base::TimerId timer_ = base::TimerId::kNone;
  base::Time timer_at_ = base::kNever;
};

}  // namespace weir::session
