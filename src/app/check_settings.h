// The checks of `weir check` beside the models': what `weir serve` would refuse to start with, found without serving.
#pragma once

#include "app/config.h"

namespace weir::app {

// Opens what opening does not change, and looks whether the rest could be opened: a server may be running with the same
// files. Errors name the setting.
base::Status check_settings(const Config& config);

}  // namespace weir::app
