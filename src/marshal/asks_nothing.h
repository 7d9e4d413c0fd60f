// Members that clients of other servers send with values that ask for nothing.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace weir::marshal {

// The JSON of a value asks for nothing, or for what is done anyway: one beam, a penalty of 1. A number may be a string.
inline bool asks_nothing(std::string_view json) {
  constexpr std::string_view kNothing[] = {"null", "false", "0",     "1",  "0.0", "1.0",
                                           "\"\"", "\"0\"", "\"1\"", "[]", "{}"};
  return std::find(std::begin(kNothing), std::end(kNothing), json) != std::end(kNothing);
}

}  // namespace weir::marshal
