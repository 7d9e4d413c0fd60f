// Streams of background responses that are still being made: the first events, then comments that keep the connection
// alive, and all other events once the response is complete (replay.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/openai/state.h"

namespace weir::openai::responses {

// The most streams on one shard of responses that other processes make; each asks the journal once a second. One tenant
// may have a quarter of them.
inline constexpr size_t kMostFollowers = 256;

// Streams a response that this process makes. `so_far`: the response as it is now, as JSON.
void follow_here(OpenAiState& state, wire::Exchange& exchange, const std::string& id, int64_t after,
                 std::string_view so_far);
// The same for a response that another process makes, as the journal says. If there are too many such streams, or this
// process shuts down, the stream ends, or the request is answered 503.
void follow_elsewhere(OpenAiState& state, wire::Exchange& exchange, const std::string& id, int64_t after,
                      std::string_view so_far);

}  // namespace weir::openai::responses
