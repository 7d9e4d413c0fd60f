// The devices of the instances of a model of tokens: no two instances share one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace weir::models {

// For instances that have `size` devices each: the one that is named, and those behind it. Errors: INVALID_ARGUMENT
// where one is named twice.
base::Status one_on_each(std::vector<std::string> places, size_t size);

}  // namespace weir::models
