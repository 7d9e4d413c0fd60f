// Pipeline: an Inbox in front of other models' Inboxes. Its nodes run one after the other, each in its own model's lane
// and batched there with whatever else that lane has; outputs feed inputs through slots.
//
// A Call that comes in becomes a flight with a Call of its own, which goes from node to node. The step from one node to
// the next is made on the thread that the answer comes on (a lane's, as a rule), so a pipeline adds no hops of its own;
// only the last answer goes back to the Call's home.
//
// Deadline, priority, queue timeout, tenant, parameters and id go with the flight, but for `stream`, which models of
// text take: a node answers once, and one that does not all the same is UNIMPLEMENTED. When the Call is cancelled, the
// node that has it is told. A failure keeps its code and names its node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bus/catalog.h"
#include "msg/call.h"

namespace weir::sched {

struct PipelinePort {
  std::string tensor;  // as the node's model names it
  uint32_t slot = 0;
  bool optional = false;  // an input that may be absent
};

struct PipelineNode {
  std::string name;
  std::shared_ptr<bus::Served> served;  // stays this version for the life of the pipeline
  std::vector<PipelinePort> inputs;
  std::vector<PipelinePort> outputs;  // those that somebody needs
};

struct PipelinePlan {
  uint32_t slots = 0;
  std::vector<PipelinePort> inputs;  // of the pipeline: where each goes
  std::vector<PipelineNode> nodes;   // at least one, in the order in which they run
  std::vector<PipelinePort> outputs;
};

// `stats` outlives the Inbox, which outlives its Calls. The nodes' models are not decoupled.
std::unique_ptr<msg::Inbox> make_pipeline(PipelinePlan plan, bus::ModelStats& stats);

}  // namespace weir::sched
