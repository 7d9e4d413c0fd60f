// NodeHeights: finds cycles and too deep nesting at the edge that makes them. Every node has a height, the number of
// nodes on the longest path below it with itself, which only rises: an edge to a child that is as high as its parent
// raises what is above. A parent over what is there already, the next turn of a conversation, raises nothing. What a
// hostile order costs has a limit of its own (GraphLimits::climbs). Nothing recurses.
#pragma once

#include <vector>

#include "dialects/evergreen/graph/node.h"
#include "dialects/evergreen/graph/turn_budget.h"

namespace weir::evergreen {

class NodeHeights {
 public:
  // `turn_budget` (null: without limit) and `limits` outlive this.
  NodeHeights(const GraphLimits& limits, TurnBudget* turn_budget) : limits_(limits), turn_budget_(turn_budget) {}

  // The edge from `parent` to `child` is there, by fragment `seq` of the parent. Errors: INVALID_ARGUMENT (the edge
  // closes a cycle), RESOURCE_EXHAUSTED.
  base::Status add_edge(Node& parent, Node& child, int64_t seq);

 private:
  base::Status raise(Node& parent, Node& child);
  void climb(uint64_t edges);
  static bool reaches(Node& from, const Node& to);

  const GraphLimits& limits_;
  TurnBudget* const turn_budget_;
  uint64_t climbed_ = 0;  // edges that were followed upwards
  uint64_t unspent_ = 0;  // of these and of the nodes: the turn has not been charged for them
  std::vector<Node*> work_;
};

}  // namespace weir::evergreen
