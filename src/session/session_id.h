// Names of sessions: 128 random bits. Their top 16 bits, modulo the number of shards, say on which shard a session
// lives, so that every shard finds it without asking. In a cluster the 32 bits behind those are the tag of the node
// that opened the session: a hint where to ask first, and no proof, for anybody can write an id.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/ids.h"

namespace weir::session {

// The tag of a node in ids; 0: the node is alone, and its ids have none.
enum class NodeTag : uint32_t { kNone = 0 };
// Follows from the node's name alone. Two nodes may have the same. Never kNone.
NodeTag tag_of_node(std::string_view name);
NodeTag tag_of(base::SessionId id);

base::SessionId make_session_id(base::Env& env, base::ShardId home, size_t shards, NodeTag node = NodeTag::kNone);
base::ShardId home_of(base::SessionId id, size_t shards);

// 32 lower-case hexadecimal digits; nothing for any other text.
std::string text(base::SessionId id);
std::optional<base::SessionId> parse_session_id(std::string_view text);

}  // namespace weir::session
