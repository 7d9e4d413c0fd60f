// The last warnings and errors of the log, for whoever looks at the server's state without having its log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::base::log {

inline constexpr size_t kMostWarnings = 20;

struct Warnings {
  uint64_t count = 0;              // of all since the start
  std::vector<std::string> lines;  // the last ones, the oldest first, as they were written, without their ends
};
// Any thread; takes a brief lock, which nobody but a warning holds.
Warnings recent_warnings();

}  // namespace weir::base::log
