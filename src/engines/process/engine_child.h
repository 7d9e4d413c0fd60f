// The child's side of the protocol for the server's own engines: the process that runs one Engine, so that a fault
// inside of it ends that process alone (load_isolated() in engine.h is the server's side).
//
// Inputs are used where they lie in the shared memory, and outputs are made in it, so that a step copies nothing here.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "msg/spec.h"
#include "sched/engine.h"

namespace weir::process {

// `slabs`, where outputs are made, outlives the engine.
using LoadEngine = std::function<base::Result<std::unique_ptr<sched::Engine>>(
    const msg::ModelSpec& wanted, const std::string& file, base::SlabSource& slabs)>;

// Speaks with the server over descriptor 3 until it says stop, or is gone. Returns the exit status: 0; 1 where the
// model was not loaded, which the server has been told.
int run_engine(const LoadEngine& load);

}  // namespace weir::process
