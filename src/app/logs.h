// The log as the configuration sets it.
#pragma once

#include "app/config.h"

namespace weir::app {

// From now on and for the whole process: level and format, or the level alone.
void set_up_logs(const Config& config);
void set_log_level(base::log::Level least);

}  // namespace weir::app
