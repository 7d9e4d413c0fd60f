// generation_config.json of a model's folder: what its makers say of sampling and of the ids that end a text.
#pragma once

#include <string_view>

#include "base/status.h"
#include "msg/spec.h"

namespace weir::marshal {

// Sets `spec.defaults`, and `spec.eos_ids` where the file names any; its ids are below spec.vocabulary. Empty text: no
// such file, and nothing changes. Errors: INVALID_ARGUMENT, naming the file and the member.
base::Status read_generation_config(std::string_view text, msg::TextSpec& spec);

}  // namespace weir::marshal
