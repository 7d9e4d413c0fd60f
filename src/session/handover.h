// Handover: sessions that go where their client goes. Each is kept for all nodes of a cluster, and is held by one shard
// of one node at a time: the one that its client is connected to. Whoever else the client comes to takes it from there,
// or from what was kept where that node is gone. A server has one, or none where it is alone. Any thread; answers come
// on the shard that is named, later.
//
//   text that is kept = "weir-held 1" LF "whose " word LF state
//
// A session is its owner's alone: for others it does not exist.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"

namespace weir::session {

class Handover {
 public:
  using Done = std::function<void(base::Status)>;
  // Nothing: there is no such session.
  using Taken = std::function<void(base::Result<std::optional<std::string>>)>;
  static constexpr size_t kLargestState = 4 << 20;

  // How long a session is kept at least when its client has gone. Once, before the server starts.
  virtual void keep_for(base::Duration life) = 0;
  // The number of this node's claim to its sessions: another one once it has been taken for dead. 0: whether it still
  // has them is not known. What was taken or held under another number is not this node's: it must not answer for it.
  // Cheap.
  virtual uint64_t epoch() const = 0;
  // The shard has the session until let_go() or end(): one that it has taken, or a new one. `whose`: its owner, as all
  // nodes name it. `leave` runs on the shard when another connection of the owner asks for the session: then this one
  // is to let it go.
  virtual void hold(base::SessionId id, std::string whose, base::ShardId shard, std::function<void()> leave) = 0;
  // Keeps a session that is held, `state` instead of what was kept before. OK: whoever takes it finds that state.
  // ABORTED: another node has the session. All other errors leave what was kept before: UNAVAILABLE (the place where
  // sessions are kept is away; the state is written once it is back, unless the node dies first), RESOURCE_EXHAUSTED
  // (its client keeps as much as it may, or there is no room).
  virtual void save(base::SessionId id, std::string state, base::ShardId shard, Done then) = 0;
  // The client has left: whoever it comes to may have what was saved last.
  virtual void let_go(base::SessionId id) = 0;
  // It is over, everywhere.
  virtual void end(base::SessionId id) = 0;
  // Takes the session from whoever has it. What is taken is to be held, or let go. Errors, texts that name the cause:
  // UNAVAILABLE, RESOURCE_EXHAUSTED: worth another try; DATA_LOSS (what was kept of it cannot be read).
  virtual void take(base::SessionId id, std::string whose, base::ShardId shard, Taken then) = 0;

 protected:
  ~Handover() = default;
};

// The OtherNodes of a server are one of these, too, where sessions go from node to node: a dialect asks by a
// dynamic_cast, so that dialects that do not hand over need not know.
class HandsOver {
 public:
  virtual Handover& handover() = 0;

 protected:
  ~HandsOver() = default;
};

// The text that is kept, and the state in it. Errors: DATA_LOSS; NOT_FOUND: it is somebody else's.
std::string write_held(std::string_view whose, std::string_view state);
base::Result<std::string_view> read_held(std::string_view text, std::string_view whose);

}  // namespace weir::session
