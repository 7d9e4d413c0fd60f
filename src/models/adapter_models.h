// The adapters of a model that makes tokens (msg::ModelSpec::adapters), as clients see them: each a model of its own.
#pragma once

#include <memory>
#include <vector>

#include "bus/catalog.h"
#include "models/loaded_adapters.h"

namespace weir::models {

// One for each adapter that `model` was made with, and for each of `loaded` that is in memory or comes there with it.
// Each is: `model` but for its name, with an Inbox that says on each Call which adapter it is for, and
// hands it to the model's. They keep the model alive; its counters have their Calls, and theirs have none.
std::vector<std::shared_ptr<bus::Served>> adapter_models(const std::shared_ptr<bus::Served>& model,
                                                         const LoadedAdapters& loaded);
std::shared_ptr<bus::Served> adapter_model(const std::shared_ptr<bus::Served>& model, const LoadedAdapter& adapter);
// `waiting`: the adapters of a version that was not in memory, whose Calls go on into the one that is. They keep those
// of `loaded` that have their numbers, which may be unloaded while these Calls run.
void keep_adapters(const std::vector<std::shared_ptr<bus::Served>>& waiting, const LoadedAdapters& loaded);

}  // namespace weir::models
