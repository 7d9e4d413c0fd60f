// require(): an invariant of a fuzz target.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace weir {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

}  // namespace weir
