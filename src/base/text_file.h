// Text files that settings name, as a whole. They are small, but for lists of keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace weir::base {

inline constexpr size_t kMostTextFileBytes = size_t(1) << 20;

// Whether a pipe is read, too, to its end: `--config <(…)`. It waits for whoever writes there, so a server that runs
// reads none.
enum class Pipes : uint8_t { kRefused, kRead };

// Errors: INVALID_ARGUMENT with the path and the system's reason; also where the file is empty or longer than `most`,
// and where it is something else than a regular file. FAILED_PRECONDITION for a pipe that is refused.
Result<std::string> read_text_file(const std::string& path, Pipes pipes = Pipes::kRefused,
                                   size_t most = kMostTextFileBytes);

}  // namespace weir::base
