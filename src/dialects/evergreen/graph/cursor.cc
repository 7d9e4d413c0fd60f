#include "dialects/evergreen/graph/cursor.h"

#include <utility>

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::Status;

// How many nodes one measuring may look at, and how many of them are a step of the TurnBudget.
constexpr uint64_t kMostMeasured = 64 << 10, kMeasuredPerStep = 32;
// Readers of a leaf look for the parameters of its type, which takes some 12 ns for each byte of that.
constexpr uint64_t kTypePerStep = 64;

}  // namespace

Cursor::Cursor(NodeGraph& graph, Node& root, CursorListener& listener) : graph_(graph), listener_(listener) {
  if (!enter(root) || !visit(1, 1)) return;  // nothing is measured any more
  // For a large graph it is found out on the way.
  const auto size = graph.flatten_budget_.measure(root, kMostMeasured);
  const uint64_t steps = graph.flatten_budget_.measured();
  if (!size || !exceeds_limits(*size)) (void)visit(steps, (steps + kMeasuredPerStep - 1) / kMeasuredPerStep);
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

// Fails where an action would read what it writes: it would wait for itself, or never come to an end.
bool Cursor::enter(Node& node) {
  ++node.pins_;
  path_.push_back({&node});
  if (!node.open() || node.writer_ != &listener_) return true;
  (void)fail(base::invalid(describe_node(node.id_) + ": an action's output must not be part of its own input"));
  return false;
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

// Fails where it does.
bool Cursor::exceeds_limits(const FlatSize& size) {
  if (size.visits <= graph_.limits_.flattened && size.bytes <= graph_.limits_.flattened_bytes) return false;
  (void)fail(
      failure(Code::kResourceExhausted, describe_node(path_.front().node->id_) + " is too large when flattened"));
  return true;
}

// The work of all Cursors together: any number may read one node, and each is woken whenever it grows.
bool Cursor::visit(uint64_t visits, uint64_t steps) {
  graph_.spend(steps);
  if (graph_.flatten_budget_.take(visits)) return true;
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
    part.charge = graph_.memory_.share(part.data.size(), charged_elsewhere(part.data));
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
    const uint64_t type = part.described ? n.metadata_->mimetype.size() / kTypePerStep : 0;
    if (!visit(1 + type, 1 + type + part.data.size() / kBytesPerStep)) return Step::kFailed;
    visited_.visits += 1;
    visited_.bytes += part.data.size();
    if (exceeds_limits(visited_)) return Step::kFailed;
    if (part.chunk) {
      ++at.part;
      leaf_ = &n;
      data_ = part.data;
      return Step::kChunk;
    }
    if (at.child < part.children.size()) {
      Node& child = *part.children[at.child++].child;
      if (!enter(child)) return Step::kFailed;
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
