// check(): an invariant of the program that no input can break. When it is broken all the same, the process ends with
// a line that says which one and where; going on would hand one client's answer to another.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace weir::base {

// The place is the caller's: clang 14 cannot use libstdc++'s std::source_location, but it has these two.
[[noreturn]] inline void broken(const char* invariant, const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) {
  std::fprintf(stderr, "broken invariant: %s (%s:%d)\n", invariant, file, line);
  std::abort();
}

inline void check(bool holds, const char* invariant, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) [[unlikely]]
    broken(invariant, file, line);
}

}  // namespace weir::base
