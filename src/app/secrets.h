// The secrets that the configuration names.
#pragma once

#include <string>
#include <vector>

#include "app/config.h"

namespace weir::app {

// salience.bearer_token, then the lines of salience.bearer_token_file. Errors: INVALID_ARGUMENT for a file that cannot
// be read or holds none, and for a secret that cannot be sent as one.
base::Result<std::vector<std::string>> bearer_tokens(const SalienceConfig& config);

}  // namespace weir::app
