// The table of settings: one row per key.
#pragma once

#include <vector>

#include "app/config.h"
#include "base/setting.h"

namespace weir::app {

// The rows of `config`, which they borrow, in the order of `weir check`; those of one section ("limits") stand
// together.
std::vector<base::Setting> settings(Config& config);

}  // namespace weir::app
