// Schemas that hold together become one.
#pragma once

#include <string_view>

#include "grammar/error.h"
#include "grammar/readers.h"
#include "json_document.h"

namespace grammar {

// How schemas are merged, and what that has come to: the few bytes of one may stand in thousands of places of another.
struct Merging {
  Unsupported unsupported = Unsupported::kRefused;
  size_t bytes = 0;

  // Counts the schema. False: that is too much.
  bool take(const Json& schema);
};

// The schema of values that are valid for both. Errors name the keyword that cannot be merged; with kIgnored it is that
// of `a` instead.
Result<Json> merge(const Json& a, const Json& b, Merging& merging, std::string_view pointer);
// Keywords that say nothing of what is valid.
bool is_annotation(std::string_view keyword);
// Whether no value is valid for both, as far as that is seen without looking for one.
bool disjoint(const Json& a, const Json& b);
// Whether the value has the type; a whole number has both types of numbers.
bool has_type(const Json& value, std::string_view type);

}  // namespace grammar
