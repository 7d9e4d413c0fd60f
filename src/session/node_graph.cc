#include "session/node_graph.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::session {
namespace {

using base::Code;
using base::failure;
using base::Status;

// What keeping things costs beside their bytes, so that empty ones are not free.
constexpr uint64_t kNodeCost = 512, kFragmentCost = 96, kEdgeCost = 32, kSlabCost = 64;
constexpr size_t kLongestId = 1024;
constexpr size_t kShownId = 80;
constexpr uint64_t kMost = uint64_t(1) << 63;

uint64_t sum(uint64_t a, uint64_t b) { return a >= kMost - std::min(b, kMost) ? kMost : a + b; }

std::string shown(std::string_view id) {
  return id.size() <= kShownId ? "node '" + std::string(id) + "'"
                               : "node '" + std::string(id.substr(0, kShownId)) + "…'";
}
std::string place(std::string_view id, int64_t seq) { return shown(id) + ", fragment " + std::to_string(seq); }

Status broken(std::string_view id, int64_t seq, std::string_view rule) {
  return base::invalid(place(id, seq) + ": " + std::string(rule));
}

// The sum over a branch's children of what is memoised; complete only once all of them are.
template <class Each>
void each_child(const auto& parts, Each each) {
  for (const auto& part : parts)
    for (auto* child : part.children) each(*child);
}

}  // namespace

NodeGraph::NodeGraph(GraphLimits limits) : limits_(limits) {}

NodeGraph::~NodeGraph() {
  for (const auto& [id, node] : by_name_)
    base::check(node->pins_ == node->open() && node->waiting_.empty(), "a NodeGraph outlives its Cursors");
}

Node* NodeGraph::find(std::string_view id) {
  auto at = by_name_.find(id);
  return at == by_name_.end() ? nullptr : at->second.get();
}

base::Result<Node*> NodeGraph::node(std::string_view id) {
  if (Node* known = find(id)) return known;
  if (id.empty()) return base::invalid("a node id must not be empty");
  if (id.size() > kLongestId)
    return base::invalid(shown(id) + ": a node id has at most " + std::to_string(kLongestId) + " bytes");
  if (by_name_.size() >= limits_.nodes)
    return failure(Code::kResourceExhausted,
                   shown(id) + ": a session has at most " + std::to_string(limits_.nodes) + " nodes");
  auto made = std::make_unique<Node>();
  made->id_ = id;
  Node* raw = made.get();
  if (Status s = charge(kNodeCost + id.size(), *raw, 0); !s.ok()) return s;
  by_name_.emplace(raw->id_, std::move(made));
  return raw;
}

base::Result<Node*> NodeGraph::claim(std::string_view id) {
  auto found = node(id);
  if (!found) return found;
  Node& n = **found;
  if (n.claimed_ || n.touched() || n.dropped_)
    return failure(Code::kAlreadyExists, shown(id) + ": the id of an output must be new");
  n.claimed_ = true;
  ++n.pins_;  // until it is complete or has failed
  return found;
}

Status NodeGraph::charge(uint64_t bytes, const Node& node, int64_t seq) {
  if (bytes > limits_.bytes || bytes_ > limits_.bytes - bytes)
    return failure(Code::kResourceExhausted,
                   place(node.id_, seq) + ": the session's content passes " + std::to_string(limits_.bytes) + " bytes");
  bytes_ += bytes;
  return {};
}

base::Result<NodeGraph::Fate> NodeGraph::add(const Fragment& f) {
  auto found = node(f.node);
  if (!found) return found.error();
  Node& n = **found;
  if (f.seq < 0) return broken(n.id_, f.seq, "a sequence number must not be negative");
  if (n.claimed_) return broken(n.id_, f.seq, "the node is the output of an action");
  if (n.dropped_) return broken(n.id_, f.seq, "the node has been dropped");
  if (f.seq < int64_t(n.parts_.size()) || n.ahead_.contains(f.seq)) return Fate::kDuplicate;
  if (Status s = check(n, f); !s.ok()) return s;
  if (Status s = take(n, f); !s.ok()) return s;
  return Fate::kTaken;
}

Status NodeGraph::append(Node& node, Fragment f) {
  f.node = node.id_;
  f.seq = int64_t(node.parts_.size());
  Status s = check(node, f);
  if (s.ok()) s = take(node, f);
  if (s.ok() && node.complete()) --node.pins_;
  return s;
}

Status NodeGraph::check(const Node& n, const Fragment& f) const {
  const bool has_children = !f.children.empty();
  if (f.has_chunk && has_children) return broken(n.id_, f.seq, "a fragment has a chunk or children, not both");
  if (!f.has_chunk && !has_children && f.continued)
    return broken(n.id_, f.seq, "a fragment without chunk and children can only be the final one");
  if (n.final_ >= 0 && f.seq > n.final_)
    return broken(n.id_, f.seq, "the node's final fragment is " + std::to_string(n.final_));
  if (!f.continued && n.highest_ > f.seq)
    return broken(n.id_, f.seq, "it is final, but fragment " + std::to_string(n.highest_) + " has come");
  if (n.kind_ == Node::Kind::kBranch && f.has_chunk) return broken(n.id_, f.seq, "a chunk in a node of children");
  if (n.kind_ == Node::Kind::kLeaf && has_children) return broken(n.id_, f.seq, "children in a node of chunks");
  if (f.has_chunk && f.seq == 0 && !f.metadata) return broken(n.id_, f.seq, "the first chunk needs metadata");
  if (f.metadata && n.metadata_ && !(*f.metadata == *n.metadata_))
    return broken(n.id_, f.seq, "its metadata contradicts that of the node's other chunks");
  if (f.seq > int64_t(n.parts_.size()) && n.ahead_.size() >= limits_.ahead)
    return failure(Code::kResourceExhausted, place(n.id_, f.seq) + ": more than " + std::to_string(limits_.ahead) +
                                                 " fragments wait for fragment " + std::to_string(n.parts_.size()));
  return {};
}

Status NodeGraph::take(Node& n, const Fragment& f) {
  Node::Part part;
  part.cost = kFragmentCost + f.children.size() * kEdgeCost + f.data.size() + (f.data.empty() ? 0 : kSlabCost);
  if (f.metadata && !n.metadata_) {
    part.cost += f.metadata->mimetype.size() + f.metadata->role.size() + f.metadata->file_name.size() +
                 f.metadata->other.size() + sizeof(Metadata);
    n.metadata_ = std::make_unique<Metadata>(*f.metadata);
  }
  if (Status s = charge(part.cost, n, f.seq); !s.ok()) return s;
  if (f.has_chunk) n.kind_ = Node::Kind::kLeaf;
  if (!f.children.empty()) n.kind_ = Node::Kind::kBranch;
  if (!f.continued) n.final_ = f.seq;
  n.highest_ = std::max(n.highest_, f.seq);
  part.chunk = f.has_chunk;
  part.data = f.data;
  part.pending = f.by_reference;
  n.pending_ += f.by_reference;
  part.children.reserve(f.children.size());
  for (std::string_view id : f.children) {
    auto child = node(id);
    if (!child) {
      Status s = std::move(child).error();
      s.text = place(n.id_, f.seq) + ": child: " + s.text;
      return s;
    }
    part.children.push_back(*child);
    if (Status s = link(n, **child, f.seq); !s.ok()) return s;
  }
  n.ahead_.emplace(f.seq, std::move(part));
  extend(n);
  return {};
}

void NodeGraph::extend(Node& n) {
  bool grew = false;
  for (auto at = n.ahead_.begin(); at != n.ahead_.end() && at->first == int64_t(n.parts_.size());) {
    n.parts_.push_back(std::move(at->second));
    at = n.ahead_.erase(at);
    grew = true;
  }
  if (grew) wake(n);
}

void NodeGraph::wake(Node& n) {
  for (Cursor* c : n.waiting_) {
    c->waits_for_ = nullptr;
    woken_.push_back(c);
  }
  n.waiting_.clear();
}

void NodeGraph::deliver() {
  while (!woken_.empty()) {
    Cursor* c = woken_.front();
    woken_.pop_front();
    c->listener_.on_news(*c);
  }
}

// parent -> child. Raises the levels below; where that comes back to the parent, the edge closes a cycle.
Status NodeGraph::link(Node& parent, Node& child, int64_t seq) {
  auto cycle = [&] { return broken(parent.id_, seq, "child '" + child.id_ + "' would make the node contain itself"); };
  if (&parent == &child) return cycle();
  child.parents_.push_back(&parent);
  if (child.level_ > parent.level_) return {};
  child.level_ = parent.level_ + 1;
  work_.assign(1, &child);
  while (!work_.empty()) {
    Node& n = *work_.back();
    work_.pop_back();
    if (n.level_ > limits_.depth) {
      if (reaches(child, parent)) return cycle();
      return failure(Code::kResourceExhausted,
                     place(parent.id_, seq) + ": nodes nest deeper than " + std::to_string(limits_.depth) + " levels");
    }
    bool closed = false;
    auto raise = [&](Node& below) {
      closed = closed || &below == &parent;
      if (below.level_ > n.level_) return;
      below.level_ = n.level_ + 1;
      work_.push_back(&below);
    };
    each_child(n.parts_, raise);
    for (auto& [s, part] : n.ahead_)
      for (Node* below : part.children) raise(*below);
    if (closed) return cycle();
  }
  return {};
}

bool NodeGraph::reaches(Node& from, const Node& to) {
  ++epoch_;
  work_.assign(1, &from);
  from.mark_ = epoch_;
  while (!work_.empty()) {
    Node& n = *work_.back();
    work_.pop_back();
    if (&n == &to) return true;
    auto visit = [&](Node& below) {
      if (std::exchange(below.mark_, epoch_) != epoch_) work_.push_back(&below);
    };
    each_child(n.parts_, visit);
    for (auto& [s, part] : n.ahead_)
      for (Node* below : part.children) visit(*below);
  }
  return false;
}

void NodeGraph::fail(Node& n, Status why) {
  if (!n.open()) return;
  n.failed_ = std::move(why);
  --n.pins_;
  wake(n);
}

Status NodeGraph::loaded(Node& n, int64_t seq, base::Bytes data) {
  Node::Part* part = nullptr;
  if (seq < int64_t(n.parts_.size()))
    part = &n.parts_[size_t(seq)];
  else if (auto at = n.ahead_.find(seq); at != n.ahead_.end())
    part = &at->second;
  if (!part || !part->pending) return {};  // dropped meanwhile
  if (Status s = charge(data.size() + kSlabCost, n, seq); !s.ok()) return s;
  part->cost += data.size() + kSlabCost;
  part->data = std::move(data);
  part->pending = false;
  --n.pending_;
  wake(n);
  return {};
}

// Takes the content away; children that lose their last parent are listed.
void NodeGraph::unlink(Node& n, std::vector<Node*>& orphans) {
  auto release = [&](Node::Part& part) {
    bytes_ -= part.cost;
    for (Node* child : part.children) {
      auto edge = std::find(child->parents_.begin(), child->parents_.end(), &n);
      base::check(edge != child->parents_.end(), "an edge is known at both ends");
      child->parents_.erase(edge);
      if (child->parents_.empty()) orphans.push_back(child);
    }
  };
  for (auto& part : n.parts_) release(part);
  for (auto& [seq, part] : n.ahead_) release(part);
  n.parts_ = {};
  n.ahead_.clear();
  n.metadata_.reset();
  n.pending_ = 0;
}

void NodeGraph::forget(Node& n) {
  if (!n.dropped_ || n.pins_ > 0 || !n.parents_.empty() || !n.waiting_.empty()) return;
  bytes_ -= kNodeCost + n.id_.size();
  by_name_.erase(by_name_.find(n.id_));
}

Status NodeGraph::drop(Node& root, Reach reach) {
  if (root.open())
    return failure(Code::kFailedPrecondition, shown(root.id_) + " is the output of an action that still runs");
  std::vector<Node*> drops{&root}, orphans;
  for (size_t i = 0; i < drops.size(); ++i) {
    Node& n = *drops[i];
    if (n.dropped_) continue;
    n.dropped_ = true;
    orphans.clear();
    unlink(n, orphans);
    n.failed_ = failure(Code::kNotFound, shown(n.id_) + " has been dropped");
    wake(n);
    // Nodes that are only names, or that were dropped before, go with their last parent whatever the reach.
    for (Node* child : orphans) {
      if (child->dropped_)
        drops.push_back(child);
      else if (reach == Reach::kWithChildren && !child->open() && child->touched())
        drops.push_back(child);
    }
  }
  for (Node* n : drops) forget(*n);
  return {};
}

FlatSize NodeGraph::measure(Node& root) {
  ++epoch_;
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
      each_child(n->parts_, [&](Node& child) {
        if (child.mark_ != epoch_) todo.emplace_back(&child, false);
      });
      continue;
    }
    todo.pop_back();
    FlatSize size{1, 0};
    for (const auto& part : n->parts_) {
      size.visits = sum(size.visits, part.chunk);
      size.bytes = sum(size.bytes, part.data.size());
      for (const Node* child : part.children) {
        size.visits = sum(size.visits, child->size_.visits);
        size.bytes = sum(size.bytes, child->size_.bytes);
      }
    }
    n->size_ = size;
    n->mark_ = epoch_;
  }
  return root.size_;
}

Cursor::Cursor(NodeGraph& graph, Node& root, CursorListener& listener) : graph_(graph), listener_(listener) {
  FlatSize size = graph.measure(root);
  if (size.visits > graph.limits_.flattened || size.bytes > graph.limits_.flattened_bytes)
    status_ = failure(Code::kResourceExhausted, shown(root.id_) + " is too large when flattened");
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
      return fail(failure(Code::kResourceExhausted, shown(path_.front().node->id_) + " is too large when flattened"));
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
  return missing_ ? place(missing_->id_, int64_t(missing_->parts_.size())) : std::string();
}

}  // namespace weir::session
