// Sends the events of a stored response again: GET /responses/{id}?stream=true&starting_after=N.
//
// Events have the numbers that they had in the first stream, so a client whose stream broke off can continue behind the
// last event that it has seen. For a response that was not streamed each text comes in one piece.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/state.h"

namespace weir::openai::responses {

// How a stream was cut into events: the number of events, and the lengths of the deltas of each item. As text:
// "12;3,5;4".
struct StreamCuts {
  uint64_t events = 0;  // 0: it was not streamed
  std::vector<std::vector<uint32_t>> items;
};
std::string write_cuts(const StreamCuts& cuts);
std::optional<StreamCuts> read_cuts(std::string_view text);

inline constexpr int64_t kBegun = 2;  // events that come before the first item
// replayed_events() returns the events of the response (JSON) with numbers above `after`, beginning_events() those of
// them that come before the first item (kBegun). Any thread.
std::string beginning_events(std::string_view response, int64_t after);
std::string replayed_events(std::string_view response, std::string_view cuts, int64_t after);

// Answers with the events of the client's response behind `after`. If it is still being made, here or in another
// process (background.h, put_off.h), the events of its items come once it is complete.
void replay(OpenAiState& state, wire::Exchange& exchange, const std::string& id, int64_t after);

}  // namespace weir::openai::responses
