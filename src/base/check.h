// check(): an invariant of the house that no input can break. When it is broken all the same, the process ends with a
// line that says which one and where; going on would hand one client's answer to another.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace weir::base {

[[noreturn]] inline void broken(const char* invariant, std::source_location at = std::source_location::current()) {
  std::fprintf(stderr, "broken invariant: %s (%s:%u)\n", invariant, at.file_name(), unsigned(at.line()));
  std::abort();
}

inline void check(bool holds, const char* invariant, std::source_location at = std::source_location::current()) {
  if (!holds) [[unlikely]]
    broken(invariant, at);
}

}  // namespace weir::base
