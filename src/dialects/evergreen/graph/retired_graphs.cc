#include "dialects/evergreen/graph/retired_graphs.h"

#include <utility>

#include "base/attempt.h"

namespace weir::evergreen {

// Called from destructors. Where there is no memory for the queue, the graph is freed here as a whole.
void RetiredGraphs::add(std::unique_ptr<SessionGraph> graph) {
  if (graph->nodes.dismantle()) return;
  (void)base::attempt("the end of a session", [&] {
    graphs_.push_back(std::move(graph));
    turn_budget_.wait(*this);
  });
}

void RetiredGraphs::on_turn() {
  while (!graphs_.empty() && graphs_.front()->nodes.dismantle()) graphs_.pop_front();
  if (!graphs_.empty()) turn_budget_.wait(*this);
}

}  // namespace weir::evergreen
