// Pipelines with a decoupled node, one whose model answers a Call any number of times. The nodes that do not wait for
// it run once, before it. Those that wait for it run once for each of its answers, in the order of the answers, and
// what they make is one answer of the pipeline: it answers as often as the node does. One of those that wait for it may
// be decoupled, too, and make several answers of one. Of a Call that names outputs, nodes that neither these nor a
// decoupled node need do not run (sched/pipeline.h).
//
// The node is asked for its next answer once the one before is on its way to the Call, and the Call has credit for
// it. So at most one answer of a Call is inside. The first failure of any node ends the Call, but for an error in the
// place of one answer, which goes on to a Call that takes errors. The trace has
// a step for the node, which ends with its last answer, and those of the nodes behind it for each answer.
#pragma once

#include <memory>

#include "sched/pipeline.h"

namespace weir::sched {

// `plan` has a decoupled node, and each further one waits for it: chained(). `stats` as for make_pipeline(), which
// calls this.
std::unique_ptr<msg::Inbox> make_decoupled_pipeline(const PipelinePlan& plan, bus::ModelStats& stats);

}  // namespace weir::sched
