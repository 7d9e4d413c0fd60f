// The events of a response that is stored, as its stream has told them:
// GET /responses/{id}?stream=true&starting_after=N.
//
// Events have the numbers that they had: a client whose stream broke off goes on behind the last one that it has seen.
// Of a response that was no stream each text comes in one piece.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/openai/state.h"

namespace weir::openai::responses {

// How a stream was cut: the lengths of the deltas of each item, and how many events there were. In text: "12;3,5;4".
struct StreamCuts {
  uint64_t events = 0;  // 0: it was none
  std::vector<std::vector<uint32_t>> items;
};
std::string write_cuts(const StreamCuts& cuts);
std::optional<StreamCuts> read_cuts(std::string_view text);

inline constexpr int64_t kBegun = 2;  // events that come before the first item
// The events of the response (JSON) with a number above `after`, and of these the first kBegun. Any thread.
std::string beginning_events(std::string_view response, int64_t after);
std::string replayed_events(std::string_view response, std::string_view cuts, int64_t after);

// Answers with the events of the client's response behind `after`; where it is still being made, here or elsewhere
// (background.h, put_off.h), the last ones come once it is over.
void replay(OpenAiState& state, wire::Exchange& exchange, const std::string& id, int64_t after);

}  // namespace weir::openai::responses
