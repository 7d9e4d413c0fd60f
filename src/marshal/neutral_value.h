// Recognizes neutral values of request members that weir does not have. Clients of other servers send such members with
// values that change nothing, and are not refused for it.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace weir::marshal {

// Whether a value (JSON, without spaces) asks for nothing, or for what is done anyway: one beam, a penalty of 1. A
// number may be a string.
inline bool is_neutral_value(std::string_view json) {
  constexpr std::string_view kNeutral[] = {"null", "false", "0",     "1",  "0.0", "1.0",
                                           "\"\"", "\"0\"", "\"1\"", "[]", "{}"};
  return std::find(std::begin(kNeutral), std::end(kNeutral), json) != std::end(kNeutral);
}

}  // namespace weir::marshal
