// OtherNodes: the sessions of this node as the other nodes of a cluster see them, and theirs as this node does. A
// server has one, or none where it is alone. Any thread; answers come on the shard that is named, later.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"
#include "session/session_id.h"

namespace weir::session {

class OtherNodes {
 public:
  // Where a session is.
  struct Place {
    enum class Where : uint8_t {
      kNowhere,  // no node has it
      kHere,     // this node's from now on: `state` is what it was when it was last kept
      kNode,     // at that node, or to be taken by it
    } where = Where::kNowhere;
    std::string state;
    std::string node, url;
  };
  using Done = std::function<void(base::Status)>;
  using Found = std::function<void(base::Result<Place>)>;

  // How long a session may be without use. Once, before the server starts.
  virtual void keep_for(base::Duration life) = 0;
  virtual NodeTag tag() const = 0;
  // The number of this node's claim to its sessions: another one once it has been taken for dead. 0: whether it still
  // has them is not known, so that it must find() them before it answers for them. Cheap.
  virtual uint64_t epoch() const = 0;
  // Keeps the session for another node, `state` instead of what was kept before. OK also where it could not be kept,
  // which is counted: then it lives and dies with this node. ABORTED: another node has it.
  virtual void save(base::SessionId id, std::string state, base::ShardId shard, Done then) = 0;
  // It is over, everywhere.
  virtual void end(base::SessionId id) = 0;
  // The node that probably has it, by what is known without asking; nothing: this one, or it is not known.
  virtual std::optional<Place> guess(base::SessionId id) const = 0;
  // A node that serves a model of tokens: one of that name, or any where it is empty; none of the `tried` ones.
  // Nothing: no other is known.
  virtual std::optional<Place> node_with(std::string_view model, std::span<const std::string> tried) const = 0;
  // Finds the session. `unreachable`: the name of a node that did not answer; where it is that node's, this waits for
  // as long as it takes to see that the node is gone, and takes the session. Errors, texts that name the cause:
  // UNAVAILABLE; RESOURCE_EXHAUSTED; DATA_LOSS (what was kept of it cannot be read).
  virtual void find(base::SessionId id, std::string unreachable, base::ShardId shard, Found then) = 0;

 protected:
  ~OtherNodes() = default;
};

}  // namespace weir::session
