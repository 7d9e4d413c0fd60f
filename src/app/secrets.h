// The secrets that the configuration names.
#pragma once

#include <string>
#include <vector>

#include "app/config.h"

namespace weir::app {

// salience.bearer_token, then the lines of salience.bearer_token_file. Errors: INVALID_ARGUMENT for a file that cannot
// be read or holds none, and for a secret that cannot be sent as one.
base::Result<std::vector<std::string>> bearer_tokens(const SalienceConfig& config);
// openai.api_keys, then the lines of openai.api_keys_file; the same errors.
base::Result<std::vector<std::string>> api_keys(const OpenaiConfig& config);

}  // namespace weir::app
