// Sizes that tests count in.
#pragma once

#include <cstddef>

namespace weir {

inline constexpr std::size_t kMiB = std::size_t(1) << 20;

}  // namespace weir
