// Numbers in an interval as digits.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/error.h"
#include "grammar/grammar.h"
#include "grammar/readers.h"
#include "json_document.h"

namespace grammar {

// Numbers are written with at most 15 digits before the point and 15 behind it, which every reader of JSON holds.
inline constexpr int64_t kMostInteger = 999'999'999'999'999;

// Whole numbers from `least` to `most`, each within ±kMostInteger.
Node integers(Grammar& out, int64_t least, int64_t most);
// Any number, and any whole one.
Node any_number(Grammar& out);
Node any_integer(Grammar& out);

// The numbers that `type` number or integer with minimum, maximum, the exclusive ones and multipleOf allows. Errors: a
// step of too many digits unless it is ignored (multiples of a whole number are whole all the same), bounds that are
// not numbers.
enum class NumberKind : uint8_t { kInteger, kNumber };
Result<Node> number_node(Grammar& out, const Json& schema, NumberKind kind, Unsupported unsupported,
                         std::string_view pointer);
// Whether `value` is a multiple between minimum, maximum and the exclusive ones, or is no number. Errors: bounds that
// are not numbers.
Result<bool> is_between(const Json& schema, const Json& value, std::string_view pointer);

}  // namespace grammar
