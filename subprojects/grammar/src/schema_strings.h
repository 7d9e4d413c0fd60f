// Strings of JSON: any, of a length, of a format, of a pattern.
#pragma once

#include <string_view>

#include "grammar/error.h"
#include "grammar/grammar.h"
#include "grammar/readers.h"
#include "json_document.h"

namespace grammar {

// One character inside of a string, with its escapes.
Node string_character(Grammar& out);
// A string with its quotes, as minLength, maxLength, pattern and a known format say. `any`: the node of any string.
// kIgnored: a pattern that cannot be read (look-around) counts for nothing, and neither do lengths that cannot be held
// to beside a pattern.
Result<Node> string_node(Grammar& out, const Json& schema, Node any, Unsupported unsupported, std::string_view pointer);
// Whether `value` is as long as minLength and maxLength say, or is no string. Errors: bounds that are not counts.
Result<bool> has_length(const Json& schema, const Json& value, std::string_view pointer);
// Whether the schema has a `format` that is held to. Others are annotations.
bool has_known_format(const Json& schema);
// A bound: a whole number from 0. `fallback` where the keyword is not there.
Result<uint32_t> count_of(const Json& schema, const char* keyword, uint32_t fallback, std::string_view pointer);

}  // namespace grammar
