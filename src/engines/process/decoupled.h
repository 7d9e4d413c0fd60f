// Decoupled: a model in a child that answers a call any number of times. A thread of its own hands the child one
// request after the other, each when the child has taken the one before, and takes the answers to all of them.
#pragma once

#include <memory>
#include <vector>

#include "engines/process/engine.h"
#include "engines/process/host.h"
#include "sched/decoupled_engine.h"

namespace weir::process {

// One instance for each host, of which there is one at least; each call goes to the one that has the fewest. Errors:
// RESOURCE_EXHAUSTED without a descriptor.
base::Result<std::unique_ptr<sched::DecoupledEngine>> make_decoupled(std::vector<std::unique_ptr<Host>> hosts,
                                                                     const FindModel& find);

}  // namespace weir::process
