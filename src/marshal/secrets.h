// Secrets of settings: in the configuration itself, or in a file, one per line.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/text_file.h"

namespace weir::marshal {

// `secrets`, those of the setting `key`, and the lines of the file `path`, which the setting `key`_file names ("" =
// none). Errors: INVALID_ARGUMENT for a file that cannot be read or holds none, and for a secret that cannot be sent in
// a header field; FAILED_PRECONDITION for a pipe that is refused. It reads a file.
base::Result<std::vector<std::string>> read_secrets(const std::string& key, std::vector<std::string> secrets,
                                                    const std::string& path, base::Pipes pipes = base::Pipes::kRefused);

}  // namespace weir::marshal
