// The nodes of a session as bytes, for another node of the cluster to go on with. Pure; any thread that has the graph.
//
//   state  = "weir-nodes 1" LF "age " number LF "sent " number LF "made " number LF "times " number LF
//            "dropped " number LF LF sent made *time *drop
//   sent   = SessionMessage            nodes that the client has sent; as many bytes
//   made   = SessionMessage            nodes that actions have made, one behind the other; as many bytes
//   time   = word SP number LF         a node with a time to live, and what is left of it in milliseconds
//   drop   = word LF                   a node that was dropped, and that others still have as a child
//   word   = percent encoded; numbers are decimal, age is in seconds
//
// Only complete nodes are in it: others can be sent again from their first fragment, and the ids of outputs that were
// open can be used again. A node with a time to live is a complete one, too. Children come before their parents, and
// `made` is read before `sent`, since nodes that clients send about an answer have it as a child: in this order reading
// costs the graph the least (NodeHeights).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"
#include "dialects/evergreen/graph/node_graph.h"
#include "dialects/evergreen/message.h"

namespace weir::session {
class StateReader;
}

namespace weir::evergreen {

// Fragments, children, times and dropped nodes of a state, all together: it is written in one turn.
inline constexpr size_t kMostStateParts = 32768;

struct NodeTime {
  std::string node;
  base::Duration left{};  // milliseconds are kept
};

struct WrittenState {
  std::string text;    // at most session::Handover::kLargestState bytes; empty: it is too long, or has too many parts
  uint64_t steps = 0;  // of a TurnBudget, that it took
};
using LeftOut = std::function<bool(const Node&)>;
// Nodes that `left_out` names are not in it. `times`: of nodes that are in it.
WrittenState write_graph_state(const NodeGraph& graph, base::Duration age, const std::vector<NodeTime>& times,
                               const LeftOut& left_out);

// Reads a state into a graph, as far as each turn has time. What it is given outlives it.
class GraphStateReader final : MessageSink {
 public:
  // `turn` may be null: then go_on() reads all.
  GraphStateReader(NodeGraph& graph, TurnBudget* turn) : graph_(graph), turn_(turn) {}

  // Errors: DATA_LOSS naming the part that cannot be read.
  base::Status begin(std::string state);
  base::Duration age() const { return age_; }
  // Reads on, until done(). Errors, after which the graph is of no further use: DATA_LOSS; RESOURCE_EXHAUSTED (limits);
  // ALREADY_EXISTS (an action of this graph makes a node that is in the state).
  base::Status go_on();
  bool done() const { return at_ == Part::kDone; }
  const std::vector<NodeTime>& times() const { return times_; }

 private:
  enum class Part : uint8_t { kMade, kSent, kTimes, kDropped, kDone };
  base::Status on_fragment(Fragment& fragment, std::string_view reference) override;
  base::Status on_action(ActionRequest&& action) override;
  bool holds() const override { return held_; }
  base::Status read_part(const base::Bytes& part, Part next);
  base::Status made(Fragment& fragment);
  base::Status read_lines(size_t& left, Part next);
  base::Status read_time(session::StateReader& in);
  base::Status read_drop(session::StateReader& in);
  bool made_here(std::string_view id) const;

  NodeGraph& graph_;
  TurnBudget* const turn_;
  base::Duration age_{};
  base::Bytes sent_, made_, lines_;
  size_t times_left_ = 0, dropped_left_ = 0;
  std::vector<NodeTime> times_;
  Part at_ = Part::kDone;
  size_t offset_ = 0;
  bool held_ = false;
  Node* open_ = nullptr;  // of made_, whose last fragment has not come
};

}  // namespace weir::evergreen
