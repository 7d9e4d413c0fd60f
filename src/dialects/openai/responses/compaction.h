// POST /responses/compact: a long conversation made short. The model is asked for a summary; the answer is the user's
// messages and a `compaction` item with it, which are the input of what follows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dialects/openai/responses/responses.h"

namespace weir::openai::responses {

void compact(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// A body of that request as one of a response that is asked for the summary. Any thread. Errors: 400, 404.
ApiError read_compaction(std::string_view body, const StoredView& stored, Request& out);

// `encrypted_content` of the item: opaque to clients, encoded and not encrypted, for it says what they know.
std::string sealed_summary(std::string_view summary);
std::optional<std::string> summary_in(std::string_view sealed);

}  // namespace weir::openai::responses
