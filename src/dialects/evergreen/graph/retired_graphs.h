// RetiredGraphs: the graphs of one shard's sessions that have ended. Freeing a graph takes as long as it has fragments,
// of which there may be hundreds of thousands, so it is done in the shard's TurnBudget, like all work on nodes. Until a
// graph is gone, its bytes stay reserved. The shard's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "base/sip_hash.h"
#include "dialects/evergreen/graph/node_graph.h"
#include "dialects/evergreen/graph/turn_budget.h"
#include "session/byte_quota.h"

namespace weir::evergreen {

// A graph with the reservation that pays for it.
struct SessionGraph {
  SessionGraph(session::ByteQuota* byte_quota, uint64_t tenant, const GraphLimits& limits, TurnBudget& turn_budget,
               const base::HashKey& key)
      : reservation(byte_quota, tenant), nodes(limits, &reservation, &turn_budget, key) {}

  session::Reservation reservation;
  NodeGraph nodes;
};

class RetiredGraphs final : TurnBudget::Waiter {
 public:
  explicit RetiredGraphs(TurnBudget& turn_budget) : turn_budget_(turn_budget) {}
  ~RetiredGraphs() { turn_budget_.forget(*this); }
  RetiredGraphs(const RetiredGraphs&) = delete;

  // Frees what this turn has time for at once. No Cursor is left. Never throws.
  void add(std::unique_ptr<SessionGraph> graph);
  size_t size() const { return graphs_.size(); }

 private:
  void on_turn() override;

  TurnBudget& turn_budget_;
  std::deque<std::unique_ptr<SessionGraph>> graphs_;
};

// The graph of a session that lives; at its end the graph retires.
class OwnedGraph {
 public:
  OwnedGraph(RetiredGraphs& retired, std::unique_ptr<SessionGraph> graph)
      : retired_(retired), graph_(std::move(graph)) {}
  ~OwnedGraph() { retired_.add(std::move(graph_)); }
  OwnedGraph(const OwnedGraph&) = delete;

  NodeGraph& nodes() { return graph_->nodes; }
  const NodeGraph& nodes() const { return graph_->nodes; }

 private:
  RetiredGraphs& retired_;
  std::unique_ptr<SessionGraph> graph_;
};

}  // namespace weir::evergreen
