// JSON documents within bounds, and how errors name a place in them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "grammar/error.h"

namespace grammar {

using Json = nlohmann::ordered_json;

inline constexpr size_t kMostMembers = 2000;  // of one object: each is looked for among those before it

Result<Json> parse_document(std::string_view text);
// "/a" + "b/c" -> "/a/b~1c"
std::string below(std::string_view pointer, std::string_view key);
// "<pointer>: <why>", of less than 500 bytes.
Error wrong(std::string_view pointer, std::string_view why);
// The text of a value as it stands in an answer: without white space, characters as they are.
std::string json_text(const Json& value);

}  // namespace grammar
