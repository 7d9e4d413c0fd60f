// The parts that a configuration puts between clients and an engine: pictures in place of tensors, other shapes.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/status.h"
#include "models/model_config.h"
#include "sched/engine.h"

namespace weir::models {

// The engine behind whatever the configuration asks for. `slabs` are for what is computed. Errors: those of
// sched::make_preprocessed() and sched::make_reshaped().
base::Result<std::unique_ptr<sched::Engine>> as_clients_see_it(std::unique_ptr<sched::Engine> engine,
                                                               const ModelConfig& config, base::SlabSource& slabs);
// UNIMPLEMENTED for a model that another process runs and whose configuration asks for such things, or for warm-up.
base::Status remote_fits(const ModelConfig& config);

}  // namespace weir::models
