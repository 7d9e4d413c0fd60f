// Names of sessions: 128 random bits. Their top 16 bits, modulo the number of shards, say on which shard a session
// lives, so that every shard finds it without asking.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/ids.h"

namespace weir::session {

base::SessionId make_session_id(base::Env& env, base::ShardId home, size_t shards);
base::ShardId home_of(base::SessionId id, size_t shards);

// 32 lower-case hexadecimal digits; nothing for any other text.
std::string text(base::SessionId id);
std::optional<base::SessionId> parse_session_id(std::string_view text);

}  // namespace weir::session
