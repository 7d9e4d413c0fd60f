// Reads the JSON files of a model's folder. nlohmann's library parses without recursion, but copies, compares and
// prints a value with a stack frame for each level: what the files say is bounded in depth before anything touches it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/status.h"

namespace weir::text {

inline constexpr size_t kDeepestModelJson = 64;  // lists and objects inside each other

// The value; a discarded one where `json` is not JSON. Errors: INVALID_ARGUMENT, naming `file`: it is nested deeper
// than kDeepestModelJson.
base::Result<nlohmann::json> parse_model_json(std::string_view json, std::string_view file);

}  // namespace weir::text
