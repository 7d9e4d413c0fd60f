#include "dialects/evergreen/graph/node_heights.h"

#include <algorithm>
#include <unordered_set>

namespace weir::evergreen {

using base::Code;
using base::failure;
using base::Status;

namespace {

constexpr size_t kMostLookedAt = 128 << 10;  // fragments and edges, to say why an edge is refused
constexpr uint64_t kClimbsPerStep = 12;      // nodes and edges upwards; each takes some 80 ns

}  // namespace

Status NodeHeights::add_edge(Node& parent, Node& child, int64_t seq) {
  if (parent.height_ > child.height_) return {};
  Status s = raise(parent, child);
  if (s.ok()) return s;
  const std::string place = describe_fragment(parent.id_, seq) + ": ";
  if (s.code == Code::kInvalidArgument || reaches(child, parent))
    return base::invalid(place + "child '" + child.id_ + "' would make the node contain itself");
  s.text = place + s.text;
  return s;
}

// Fails also where it comes back to the child: the edge closes a cycle.
Status NodeHeights::raise(Node& parent, Node& child) {
  const uint64_t most = std::min(limits_.climbs, climbed_ + limits_.climbs_at_once);
  parent.height_ = child.height_ + 1;
  work_.assign(1, &parent);
  while (!work_.empty()) {
    Node& n = *work_.back();
    work_.pop_back();
    if (n.height_ > limits_.depth)
      return failure(Code::kResourceExhausted, "nodes nest deeper than " + std::to_string(limits_.depth) + " levels");
    climb(n.parents_.size());
    if (climbed_ > most)
      return failure(
          Code::kResourceExhausted,
          "the session's nodes come in an order that costs too much: send long chains from their children up");
    for (const Node::Parent& parent_of_n : n.parents_) {
      Node* above = parent_of_n.node;
      if (above == &child) return base::invalid("a cycle");
      if (above->height_ > n.height_) continue;
      above->height_ = n.height_ + 1;
      work_.push_back(above);
    }
  }
  return {};
}

// From one node.
void NodeHeights::climb(uint64_t edges) {
  climbed_ += edges;
  unspent_ += 1 + edges;
  if (turn_budget_ && unspent_ >= kClimbsPerStep) turn_budget_->spend(unspent_ / kClimbsPerStep);
  unspent_ %= kClimbsPerStep;
}

// False also where it is too much to look through in one turn.
bool NodeHeights::reaches(Node& from, const Node& to) {
  std::unordered_set<const Node*> seen{&from};
  std::vector<Node*> work{&from};
  size_t left = kMostLookedAt;
  auto follow = [&](const Node::Part& part) {
    left -= std::min(left, 1 + part.children.size());
    for (const Node::Edge& edge : part.children)
      if (seen.insert(edge.child).second) work.push_back(edge.child);
    return left > 0;
  };
  while (!work.empty()) {
    Node& n = *work.back();
    work.pop_back();
    if (&n == &to) return true;
    for (const auto& part : n.parts_)
      if (!follow(part)) return false;
    for (const auto& [seq, part] : n.ahead_)
      if (!follow(part)) return false;
  }
  return false;
}

}  // namespace weir::evergreen
