// Pipeline: an Inbox in front of other models' Inboxes. A node runs as soon as every node before it is over, in its own
// model's lane and batched there with whatever else that lane has; outputs feed inputs through slots. Nodes that do not
// depend on each other run at the same time.
//
// A Call that comes in becomes a run, with a Call of its own for each node. The step from one node to the next is
// made on the thread that the answer comes on (a lane's, as a rule), so a pipeline adds no hops of its own; only the
// last answer goes back to the Call's home.
//
// Of a Call that names outputs, nodes that none of them needs do not run, unless some node waits for one whose tensors
// it does not take. Decoupled nodes always run.
//
// Deadline, priority, queue timeout, tenant, parameters and id go with the run, but for `stream`, which models of
// text take: a node answers once, and one that does not all the same is UNIMPLEMENTED. When the Call is cancelled, the
// nodes that have it are told. The first failure is the Call's, keeps its code and names its node: no other node
// starts, those under way are cancelled, and the Call is answered when all of them are over.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bus/catalog.h"
#include "msg/call.h"

namespace weir::sched {

struct PipelinePort {
  // Whether the tensor that is read gets a first dimension of 1, or loses one: one row as a batch, and back.
  enum class Leading : uint8_t { kAsItIs, kAdded, kDropped };

  std::string tensor;  // as the node's model names it
  uint32_t slot = 0;
  bool optional = false;  // may be absent
  Leading leading = Leading::kAsItIs;
};

struct PipelineNode {
  std::string name;
  std::shared_ptr<bus::Served> served;  // stays this version for the life of the pipeline
  std::vector<PipelinePort> inputs;
  std::vector<PipelinePort> outputs;  // those that somebody needs
  // Nodes that are over before this one starts, by their place in the plan, all lower than its own. Those that make its
  // inputs need not be named.
  std::vector<uint32_t> after{};
};

struct PipelinePlan {
  uint32_t slots = 0;
  std::vector<PipelinePort> inputs;  // of the pipeline: where each goes
  std::vector<PipelineNode> nodes;   // each behind those that make its inputs; none: outputs are inputs
  std::vector<PipelinePort> outputs;
  bool ordered = false;  // part of a plan in which some node waits for one whose tensors it does not take
};

// `stats` outlives the Inbox, which outlives its Calls. With nodes that are decoupled:
// sched/decoupled_pipeline.h.
std::unique_ptr<msg::Inbox> make_pipeline(PipelinePlan plan, bus::ModelStats& stats);

}  // namespace weir::sched
