// FileTime: what changes with a file, so that it is read again then.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace weir::app {

using FileTime = std::pair<int64_t, uint64_t>;  // when it changed, in nanoseconds, and its size and number

// Links are followed: a link that leads elsewhere is another file. {} where there is no regular file: a
// pipe is read once. Blocks on the disk.
FileTime file_time(const std::string& file);

}  // namespace weir::app
