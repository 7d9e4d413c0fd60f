#include <algorithm>
#include <utility>

#include "dialects/evergreen/graph/node_graph.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::Status;

constexpr uint64_t kMost = uint64_t(1) << 63;
// How many nodes one measuring may look at, and how many of them are a step of TurnBudget.
constexpr uint64_t kMostMeasured = 64 << 10, kMeasuredPerStep = 32;

uint64_t sum(uint64_t a, uint64_t b) { return a >= kMost - std::min(b, kMost) ? kMost : a + b; }

}  // namespace

// Refunds the bytes when the last of the node and those who hold them has let go.
class NodeGraph::Charge {
 public:
  Charge(NodeGraph& graph, uint64_t bytes) : graph_(graph), bytes_(bytes) {}
  ~Charge() { graph_.refund(bytes_); }
  Charge(const Charge&) = delete;

 private:
  NodeGraph& graph_;
  const uint64_t bytes_;
};

FlatSize NodeGraph::measure(Node& root) {
  measure(root, UINT64_MAX);
  return root.size_;
}

// False, and nothing is known, where it would take more steps than that.
bool NodeGraph::measure(Node& root, uint64_t most) {
  ++epoch_;
  measured_ = 0;
  // Post-order without recursion: a node is left once all its children carry this epoch's sum.
  std::vector<std::pair<Node*, bool>> todo{{&root, false}};
  while (!todo.empty()) {
    auto [n, below_done] = todo.back();
    if (n->mark_ == epoch_) {
      todo.pop_back();
      continue;
    }
    if (!below_done) {
      todo.back().second = true;
      measured_ += 1 + n->parts_.size();
      for (const auto& part : n->parts_) {
        if ((measured_ += part.children.size()) > most) return false;
        for (const Node::Edge& edge : part.children)
          if (edge.child->mark_ != epoch_) todo.emplace_back(edge.child, false);
      }
      continue;
    }
    todo.pop_back();
    FlatSize size{1, 0};
    for (const auto& part : n->parts_) {
      size.visits = sum(size.visits, part.chunk);
      size.bytes = sum(size.bytes, part.data.size());
      for (const Node::Edge& edge : part.children) {
        size.visits = sum(size.visits, edge.child->size_.visits);
        size.bytes = sum(size.bytes, edge.child->size_.bytes);
      }
    }
    n->size_ = size;
    n->mark_ = epoch_;
  }
  return true;
}

void NodeGraph::refill_visits() { visits_left_ += std::min(limits_.visits_per_message, limits_.visits - visits_left_); }

Cursor::Cursor(NodeGraph& graph, Node& root, CursorListener& listener) : graph_(graph), listener_(listener) {
  enter(root);
  if (!visit(1, 1)) return;  // nothing is measured any more
  // For a large graph it is found out on the way.
  const bool known = graph.measure(root, kMostMeasured);
  const FlatSize& size = root.size_;
  if (known && (size.visits > graph.limits_.flattened || size.bytes > graph.limits_.flattened_bytes))
    status_ = failure(Code::kResourceExhausted, describe_node(root.id_) + " is too large when flattened");
  else
    (void)visit(graph.measured_, (graph.measured_ + kMeasuredPerStep - 1) / kMeasuredPerStep);
}

Cursor::~Cursor() {
  leave_list();
  while (!path_.empty()) leave();
}

void Cursor::enlist(std::list<Cursor*>& list) {
  if (list_ == &list) return;
  leave_list();
  place_ = list.insert(list.end(), this);
  list_ = &list;
}

void Cursor::leave_list() {
  if (auto* list = std::exchange(list_, nullptr)) list->erase(place_);
}

void Cursor::enter(Node& node) {
  ++node.pins_;
  path_.push_back({&node});
}

void Cursor::leave() {
  Node& node = *path_.back().node;
  path_.pop_back();
  --node.pins_;
  graph_.forget(node);
}

Cursor::Step Cursor::wait(Node& node) {
  missing_ = &node;
  enlist(node.waiting_);
  return Step::kWait;
}

Cursor::Step Cursor::pause() {
  missing_ = nullptr;
  enlist(graph_.woken_);
  return Step::kWait;
}

Cursor::Step Cursor::fail(Status why) {
  status_ = std::move(why);
  return Step::kFailed;
}

bool Cursor::spent(uint64_t visits, uint64_t bytes) {
  visits_ += visits;
  bytes_ += bytes;
  return visits_ > graph_.limits_.flattened || bytes_ > graph_.limits_.flattened_bytes;
}

// The work of all Cursors together: any number may read one node, and each is woken whenever it grows.
bool Cursor::visit(uint64_t visits, uint64_t steps) {
  graph_.spend(steps);
  if (visits <= graph_.visits_left_) {
    graph_.visits_left_ -= visits;
    return true;
  }
  graph_.visits_left_ = 0;
  status_ = failure(Code::kResourceExhausted, describe_node(path_.front().node->id_) +
                                                  ": the session's actions visit too many fragments (each message " +
                                                  "allows for " + std::to_string(graph_.limits_.visits_per_message) +
                                                  "); send fewer actions at once, or fewer and larger fragments");
  return false;
}

Hold Cursor::hold() {
  const Place& at = path_.back();
  Node::Part& part = at.node->parts_[at.part - 1];
  if (!part.charge && !part.data.empty()) {
    part.charge = std::make_shared<const NodeGraph::Charge>(graph_, part.data.size());
    part.cost -= part.data.size();
  }
  return part.charge;
}

Cursor::Step Cursor::next() {
  if (!status_.ok()) return Step::kFailed;
  data_ = {};
  while (!path_.empty()) {
    if (graph_.paused()) return pause();
    Place& at = path_.back();
    Node& n = *at.node;
    if (!n.failed_.ok()) return fail(n.failed_);
    if (at.part == n.parts_.size()) {
      if (n.final_ < 0 || int64_t(at.part) <= n.final_) return wait(n);
      bool leaf = n.kind_ == Node::Kind::kLeaf;
      leave();
      if (leaf) return Step::kLeafEnd;
      continue;
    }
    Node::Part& part = n.parts_[at.part];
    if (part.pending) return wait(n);
    if (!visit(1, 1 + part.data.size() / kBytesPerStep)) return Step::kFailed;
    if (spent(1, part.data.size()))
      return fail(
          failure(Code::kResourceExhausted, describe_node(path_.front().node->id_) + " is too large when flattened"));
    if (part.chunk) {
      ++at.part;
      leaf_ = &n;
      data_ = part.data;
      return Step::kChunk;
    }
    if (at.child < part.children.size()) {
      Node& child = *part.children[at.child++].child;
      enter(child);
    } else {
      ++at.part;
      at.child = 0;
    }
  }
  return Step::kEnd;
}

std::string Cursor::missing() const {
  return missing_ ? describe_fragment(missing_->id_, int64_t(missing_->parts_.size())) : std::string();
}

}  // namespace weir::evergreen
