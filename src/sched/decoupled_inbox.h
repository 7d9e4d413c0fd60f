// The Inbox in front of a decoupled model.
#pragma once

#include <memory>

#include "base/client.h"
#include "bus/stats.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "sched/deadline_timer.h"
#include "sched/decoupled_engine.h"

namespace weir::sched {

// At most spec.batching.max_queue Calls are inside (0: any number), and of them no more of one tenant than `share`
// allows: others are refused with RESOURCE_EXHAUSTED. A Call that the engine has not begun when its queue timeout is
// over leaves with UNAVAILABLE, where the policy of its level is REJECT. A Call whose peer has no room keeps its place
// and is not asked for answers. An error in place of an answer ends a Call, unless it takes errors (msg::Call). The
// last Event of a Call has no tensors. `spec` and `stats` outlive the Inbox, which is a bus::CountsResponses.
std::unique_ptr<msg::Inbox> make_decoupled(std::unique_ptr<DecoupledEngine> engine, const msg::ModelSpec& spec,
                                           bus::ModelStats& stats, base::ShareRule share,
                                           std::shared_ptr<DeadlineTimer> timer);

}  // namespace weir::sched
