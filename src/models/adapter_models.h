// The adapters of a model that makes tokens (msg::ModelSpec::adapters), as clients see them: each a model of its own.
#pragma once

#include <memory>
#include <vector>

#include "bus/catalog.h"

namespace weir::models {

// One for each adapter: `model` but for its name, with an Inbox that says on each Call which adapter it is for, and
// hands it to the model's. They keep the model alive; its counters have their Calls, and theirs have none.
std::vector<std::shared_ptr<bus::Served>> adapter_models(const std::shared_ptr<bus::Served>& model);

}  // namespace weir::models
