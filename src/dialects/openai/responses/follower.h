// Streams of responses in the background that are not over: the first events, life signs, and the others once it is
// over (replay.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/openai/state.h"

namespace weir::openai::responses {

// Streams of one shard whose responses others make: each asks the journal once a second. A tenant has a quarter.
inline constexpr size_t kMostFollowers = 256;

// Waits for a response that this process makes. `so_far`: JSON.
void follow_here(OpenAiState& state, wire::Exchange& exchange, const std::string& id, int64_t after,
                 std::string_view so_far);
// For one that the journal says is under way. Where there are too many of them, or this process ends, the stream ends,
// or is 503.
void follow_elsewhere(OpenAiState& state, wire::Exchange& exchange, const std::string& id, int64_t after,
                      std::string_view so_far);

}  // namespace weir::openai::responses
