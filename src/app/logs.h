// The log as the configuration sets it.
#pragma once

#include "app/config.h"

namespace weir::app {

// Level and format, from now on and for the whole process.
void set_up_logs(const Config& config);

}  // namespace weir::app
