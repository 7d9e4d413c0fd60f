// A decoupled model in a child process: it answers a call any number of times. A thread of its own sends the child one
// request at a time, the next when the child has taken the one before, and receives the answers to all of them.
#pragma once

#include <memory>
#include <vector>

#include "engines/process/engine.h"
#include "engines/process/host.h"
#include "engines/process/waiting_answers.h"
#include "sched/decoupled_engine.h"

namespace weir::process {

// One instance for each host; `hosts` must not be empty. A call goes to the first instance that has no request to take,
// of several to the one with the fewest calls. `limit`: of what their answers take (WaitingAnswers). Errors:
// RESOURCE_EXHAUSTED if the process has no file descriptor left.
base::Result<std::unique_ptr<sched::DecoupledEngine>> make_decoupled(std::vector<std::unique_ptr<Host>> hosts,
                                                                     const FindModel& find, AnswerLimit limit);

}  // namespace weir::process
