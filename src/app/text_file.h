// Small text files that settings name, as a whole.
#pragma once

#include <string>

#include "base/status.h"

namespace weir::app {

// Errors: INVALID_ARGUMENT with the path and the system's reason, also where the file is empty.
base::Result<std::string> read_text_file(const std::string& path);

}  // namespace weir::app
