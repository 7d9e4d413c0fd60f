// SessionTable: the sessions of one shard: their tokens and images, their tenants, time to live and size limits. Pure:
// time and randomness come from an Env. Used on that shard's thread.
//
// A Generate borrows a session: begin() checks the client's offset and lends the tokens before it, settle() takes them
// back with the result. What is lent neither moves nor changes until then: a second begin() is ABORTED. A session that
// is closed or expires while it is lent can no longer be found, but keeps its memory until settle(). Everything that a
// Generate changes in a session, the rewind included, changes in settle().
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
#include "base/split_map.h"
#include "base/status.h"
#include "msg/generate.h"
#include "msg/spec.h"
#include "session/session_id.h"
#include "session/session_state.h"
#include "session/tenant.h"

namespace weir::session {

struct SessionLimits {
  uint32_t per_tenant = 1024;           // sessions, over all shards
  uint32_t depth = 16;                  // forks of forks
  uint32_t children = 64;               // open forks of one session
  uint64_t bytes = uint64_t(64) << 20;  // tokens and images of one session
  // The bytes of one tenant, if there are several, and of all tenants, over all shards. A Generate is checked when it
  // begins and charged when it ends, so Generates that run at the same time may together exceed them by what they
  // append.
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

  // True while `spec` is the same load of the model. After a reload the same tokens may mean something else.
  bool is(const msg::ModelSpec& spec) const { return spec.text && text.lock() == spec.text; }
};

// The tokens that a Generate wants to append, and where.
struct Append {
  enum class Rewind : bool { kNo, kYes };
  uint32_t offset = 0;  // the session's length as the client knows it; with kYes it may be less
  Rewind rewind = Rewind::kNo;
  size_t tokens = 0, image_bytes = 0;
};

// The tokens of a session, lent to a Generate. The spans are valid until settle().
struct Lease {
  base::SessionId session;
  base::ShardId home{};
  uint64_t serial = 0;  // unique on its home
  SessionModel model;
  std::span<const uint32_t> tokens;    // [0, offset)
  std::span<const msg::Image> images;  // those in them
  Tenant tenant{};
};

// The result of a Generate. kUnchanged: the session is as it was before begin(); allowed only if no engine has read the
// lease, because the tokens that an engine keeps for a session must be a prefix of the session. kAppended: the session
// is the lease's tokens, then `appended`, then `generated`. The session keeps the images' Bytes: pass copies, since a
// slice keeps the whole slab of its request.
struct Outcome {
  enum class Kind : uint8_t { kUnchanged, kAppended } kind = Kind::kUnchanged;
  std::vector<uint32_t> appended;
  std::vector<msg::Image> images;
  std::vector<uint32_t> generated;
};

// The error for an id that is unknown, closed, expired, or another tenant's: one text, which does not tell them apart.
base::Status no_such_session();

// A node of a cluster has this beside its sessions; a node that is alone has nothing of it.
struct Keeping {
  NodeTag tag = NodeTag::kNone;     // of the ids that are made here
  std::function<uint64_t()> epoch;  // OtherNodes::epoch(); a session of another one is not found until it is adopted
  std::function<void(base::SessionId)> ended;  // it was closed, or has expired, while it was this node's
};

class SessionTable {
 public:
  // Called once for each session that was closed or has expired, after its last lease. kYes: an engine may keep keys
  // and values for it.
  enum class EverLent : bool { kNo, kYes };
  using OnRemoved = std::function<void(base::SessionId, const SessionModel&, EverLent)>;

  SessionTable(base::Env& env, base::ShardId home, size_t shards, Quota& quota, SessionLimits limits,
               OnRemoved on_removed, Keeping keeping = {});
  ~SessionTable();
  SessionTable(const SessionTable&) = delete;

  // `client`: the one whose share it counts against; null: none. Errors: RESOURCE_EXHAUSTED.
  // `tenant_name`: what other nodes know the tenant by.
  base::Result<base::SessionId> open(Tenant tenant, SessionModel model, base::ClientRef client = {},
                                     std::string tenant_name = {});
  // Returns the serial of the lease if the session is lent: its borrower should end. An unknown id is not an error.
  std::optional<uint64_t> close(Tenant tenant, base::SessionId id);
  // A new session with what this one has before position `at`; it counts against the same client. Errors: NOT_FOUND,
  // FAILED_PRECONDITION (beyond the end; inside an image), RESOURCE_EXHAUSTED (depth, children, sessions, bytes).
  base::Result<base::SessionId> fork(Tenant tenant, base::SessionId id, uint32_t at);
  // The session's tokens; while it is lent, those that it had before the lease. Errors: NOT_FOUND.
  base::Result<std::vector<uint32_t>> dump(Tenant tenant, base::SessionId id) const;

  // Errors, and nothing changes: NOT_FOUND, ABORTED (lent already), FAILED_PRECONDITION (the offset is not the length;
  // a rewind into an image), RESOURCE_EXHAUSTED (bytes).
  base::Result<Lease> begin(Tenant tenant, base::SessionId id, const Append& append);
  // Ends the lease and applies the result. The session's idle time starts anew. False: it is not here any more.
  bool settle(uint64_t serial, Outcome&& outcome);

  bool knows(Tenant tenant, base::SessionId id) const { return find(tenant, id) != nullptr; }
  // It is here, though perhaps not this node's any more.
  bool holds(Tenant tenant, base::SessionId id) const { return sessions_.find({tenant, id}) != nullptr; }
  // The session for another node. Nothing: it is not here, or not this node's now.
  std::optional<SessionState> state(Tenant tenant, base::SessionId id) const;
  // The session is this node's now, and what `state` says; what was here under its id goes. Errors:
  // RESOURCE_EXHAUSTED.
  base::Status adopt(Tenant tenant, base::SessionId id, SessionModel model, SessionState&& state);
  // It is another node's: it goes from here, and does not end.
  void forget(Tenant tenant, base::SessionId id);

  size_t sessions() const { return sessions_.size() + removed_while_lent_; }  // also closed ones that are still lent
  uint64_t bytes() const { return bytes_; }                                   // of all of them

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

  Session* find(Tenant tenant, base::SessionId id) const;
  uint64_t epoch() const { return keeping_.epoch ? keeping_.epoch() : 0; }
  base::Result<Session*> add(Tenant tenant, SessionModel model, base::ClientRef client, base::SessionId id = {});
  base::Status admit(Tenant tenant, const base::Client* client) const;
  void return_quota(const Session& session);
  void touch(Session& session);
  void charge(Session& session);
  base::Status check_room(Tenant tenant, const base::Client* client, uint64_t more) const;
  void remove(const Key& key);
  void retire(std::unique_ptr<Session> session);
  void set_timer();
  void expire();

  base::Env& env_;
  base::ShardId home_;
  size_t shards_;
  Quota& quota_;
  SessionLimits limits_;
  OnRemoved on_removed_;
  const Keeping keeping_;
  base::SplitMap<Key, std::unique_ptr<Session>, Hash> sessions_;
  std::map<std::pair<base::Time, uint64_t>, Session*> due_;  // by expiry and number; those that are not lent
  struct Lent {
    Session* session;
    size_t tokens;                     // the lease's
    std::unique_ptr<Session> removed;  // set if it was closed or has expired meanwhile
  };
  std::unordered_map<uint64_t, Lent> lent_;
  size_t removed_while_lent_ = 0;
  uint64_t bytes_ = 0, last_number_ = 0, leases_ = 0;
  base::TimerId timer_ = base::TimerId::kNone;
  base::Time timer_at_ = base::kNever;
};

}  // namespace weir::session
