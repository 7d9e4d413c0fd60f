// Checks the model repositories that the configuration names, before anything starts.
#pragma once

#include "app/config.h"
#include "base/status.h"

namespace weir::app {

// Errors: INVALID_ARGUMENT where none is given, where one does not exist, or where a model's own folder is given in
// place of the folder around it; the text says which path to give.
// The log is warned of one that has no models where none can come later (models.control: none).
base::Status check_roots(const Config& config);

}  // namespace weir::app
