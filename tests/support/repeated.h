// A text several times over, for parsers that are asked how deep and how long.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::support {

inline std::string repeated(std::string_view part, size_t times) {
  std::string out;
  out.reserve(part.size() * times);
  for (size_t i = 0; i < times; ++i) out += part;
  return out;
}

}  // namespace weir::support
