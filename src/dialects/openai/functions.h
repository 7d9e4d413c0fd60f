// OpenAI's older members of a chat, from before there were tools: `functions` and `function_call`. They become tools,
// of which one call is answered as the message's `function_call`.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "dialects/openai/request.h"
#include "marshal/field_reader.h"

namespace weir::openai {

// "none", "auto" or {"name": …}.
bool read_function_call(marshal::FieldReader& fields, Request& request);
// Rules between them and other members, once all have been read.
ApiError settle_functions(Request& request);

// The functions as a list of tools.
nlohmann::ordered_json functions_as_tools(const Request& request);
// An error of tools as one of the functions that stand for them, where the request has those.
ApiError in_function_names(const Request& request, ApiError error);
// A message's call of a function, and the message that answers one, as those of tools. False: its name is no string.
bool function_turn_as_tools(nlohmann::ordered_json& message);

}  // namespace weir::openai
