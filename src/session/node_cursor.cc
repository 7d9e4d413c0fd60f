#include <utility>

#include "session/node_graph.h"

namespace weir::session {
namespace {

using base::Code;
using base::failure;
using base::Status;

}  // namespace

Cursor::Cursor(NodeGraph& graph, Node& root, CursorListener& listener) : graph_(graph), listener_(listener) {
  FlatSize size = graph.measure(root);
  if (size.visits > graph.limits_.flattened || size.bytes > graph.limits_.flattened_bytes)
    status_ = failure(Code::kResourceExhausted, named(root.id_) + " is too large when flattened");
  enter(root);
}

Cursor::~Cursor() {
  if (waits_for_) std::erase(waits_for_->waiting_, this);
  std::erase(graph_.woken_, this);
  while (!path_.empty()) leave();
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
  if (waits_for_ != &node) {
    waits_for_ = &node;
    node.waiting_.push_back(this);
  }
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

Cursor::Step Cursor::next() {
  if (!status_.ok()) return Step::kFailed;
  data_ = {};
  while (!path_.empty()) {
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
    if (spent(1, part.data.size()))
      return fail(failure(Code::kResourceExhausted, named(path_.front().node->id_) + " is too large when flattened"));
    if (part.chunk) {
      ++at.part;
      leaf_ = &n;
      data_ = part.data;
      return Step::kChunk;
    }
    if (at.child < part.children.size()) {
      Node& child = *part.children[at.child++];
      enter(child);
    } else {
      ++at.part;
      at.child = 0;
    }
  }
  return Step::kEnd;
}

std::string Cursor::missing() const {
  return missing_ ? placed(missing_->id_, int64_t(missing_->parts_.size())) : std::string();
}

}  // namespace weir::session
