#include "dialects/evergreen/graph/node_graph.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/memory_ledger.h"
#include "dialects/evergreen/graph/cursor.h"

namespace weir::evergreen {
namespace {

using base::Code;
using base::failure;
using base::Status;

// The charge for things beside their bytes: empty ones are not free.
constexpr uint64_t kNodeCost = 512, kFragmentCost = 96, kEdgeCost = 48, kSlabCost = 64;
constexpr size_t kLongestId = 1024;
constexpr uint64_t kPartsPerStep = 4;  // that are freed, or moved
// Most of what it takes to make them is memory that nobody has touched yet.
constexpr uint64_t kStepsPerNode = 4, kStepsPerFirstPart = 4;
constexpr size_t kChildrenAtOnce = 1024;  // that are made

Status broken(std::string_view id, int64_t seq, std::string_view rule) {
  return base::invalid(describe_fragment(id, seq) + ": " + std::string(rule));
}

// The charge for a fragment, its metadata aside.
uint64_t cost_of(const Fragment& f) {
  return kFragmentCost + f.children.size() * kEdgeCost + f.data.size() + (f.data.empty() ? 0 : kSlabCost);
}
uint64_t cost_of(const Metadata& m) {
  return m.mimetype.size() + m.role.size() + m.file_name.size() + m.other.size() + sizeof(Metadata);
}

base::Bytes compact(base::Bytes data) { return is_copied(data) ? base::Bytes::copy_of(data.view()) : data; }

// A chunk that holds nothing and is of no particular type. At seq 0 it says what the node is.
bool is_empty_chunk(const Fragment& f) {
  if (!f.has_chunk || f.seq == 0 || f.by_reference || !f.data.empty()) return false;
  return !f.metadata || f.metadata->mimetype.empty() || f.metadata->mimetype == "application/octet-stream";
}

// Frees some in this turn, after on_part() with each, which says whether that one may go. True: none is left.
template <class Parts, class Ahead, class OnPart>
bool free_parts(TurnBudget* turn, Parts& parts, Ahead& ahead, OnPart on_part) {
  auto free_some = [&](auto& some, auto free_one) {
    while (!some.empty() && !(turn && turn->spent())) {
      for (uint64_t i = 0; i < kPartsPerStep && !some.empty(); ++i)
        if (!free_one()) return false;
      if (turn) turn->spend(1);
    }
    return some.empty();
  };
  return free_some(parts, [&] { return on_part(parts.back()) && (parts.pop_back(), true); }) &&
         free_some(ahead, [&] { return on_part(ahead.begin()->second) && (ahead.erase(ahead.begin()), true); });
}

}  // namespace

// The data is charged, so the slab behind it may be little more.
bool is_copied(const base::Bytes& data) {
  constexpr size_t kSlack = 256;
  return data.slab() && data.slab()->capacity > 2 * data.size() + kSlack;
}

uint64_t charged_elsewhere(const base::Bytes& data) {
  return data.slab() && !base::on_heap(data.slab()) && !is_copied(data) ? data.size() : 0;
}

NodeGraph::NodeGraph(GraphLimits limits, session::Reservation* reservation, TurnBudget* turn_budget,
                     const base::HashKey& key)
    : limits_(limits),
      memory_(limits.bytes, reservation),
      turn_budget_(turn_budget),
      flatten_budget_(limits_),
      heights_(limits_, turn_budget),
      by_name_(0, base::KeyedHash(key)) {}

void Node::check_unused() const {
  base::check(pins_ == open() && waiting_.empty(), "a NodeGraph outlives its Cursors");
}

NodeGraph::~NodeGraph() {
  for (const auto& [id, node] : by_name_) node->check_unused();
}

// Fragments stay charged until the whole graph has gone.
bool NodeGraph::dismantle() {
  growing_.clear();
  if (!free_discarded()) return false;
  while (!by_name_.empty() && !paused()) {
    Node& n = *by_name_.begin()->second;
    n.check_unused();
    n.claimed_ = false, n.pins_ = 0;  // nobody writes it any more: without its parts it is not open again
    spend(1);
    if (!free_parts(turn_budget_, n.parts_, n.ahead_, [](const Node::Part&) { return true; })) return false;
    by_name_.erase(by_name_.begin());
  }
  return by_name_.empty();
}

// Edges go first. Children that lose their last parent go, too: with kWithChildren, or as names that were dropped
// before.
bool NodeGraph::free_discarded() {
  while (!discarded_.empty()) {
    Discarded& from = discarded_.front();  // stays where it is while others come behind it
    auto take_edge = [&](Node::Part& part) {
      const Node::Edge edge = part.children.back();
      auto& parents = edge.child->parents_;
      base::check(edge.place < parents.size() && parents[edge.place].edge == &part.children.back(),
                  "an edge is known at both ends");
      parents[edge.place] = parents.back();
      parents[edge.place].edge->place = edge.place;
      parents.pop_back();
      part.children.pop_back();
      if (!parents.empty()) return;
      if (edge.child->dropped_)
        forget(*edge.child);
      else if (from.scope == DropScope::kWithChildren && !edge.child->open() && edge.child->touched())
        discard(*edge.child, from.scope);
    };
    auto free = [&](Node::Part& part) {
      while (!part.children.empty()) {
        if (paused()) return false;
        for (uint64_t i = 0; i < kEdgesPerStep && !part.children.empty(); ++i) take_edge(part);
        spend(1);
      }
      memory_.give(part.cost, part.charge ? 0 : charged_elsewhere(part.data));
      return true;
    };
    if (!free_parts(turn_budget_, from.parts, from.ahead, free)) return false;
    Node& n = from.node;
    discarded_.pop_front();
    --n.discards_;
    forget(n);
  }
  return true;
}

Node* NodeGraph::find(std::string_view id) {
  auto at = by_name_.find(id);
  return at == by_name_.end() ? nullptr : at->second.get();
}

base::Result<Node*> NodeGraph::node(std::string_view id) {
  if (Node* known = find(id)) return known;
  if (id.empty()) return base::invalid("a node id must not be empty");
  if (id.size() > kLongestId)
    return base::invalid(describe_node(id) + ": a node id has at most " + std::to_string(kLongestId) + " bytes");
  if (by_name_.size() >= limits_.nodes)
    return failure(Code::kResourceExhausted,
                   describe_node(id) + ": a session has at most " + std::to_string(limits_.nodes) + " nodes");
  auto made = std::make_unique<Node>();
  made->id_ = id;
  Node* raw = made.get();
  if (Status s = charge(kNodeCost + id.size(), *raw, 0); !s.ok()) return s;
  spend(kStepsPerNode);
  raw->serial_ = ++last_serial_;
  by_name_.emplace(raw->id_, std::move(made));
  return raw;
}

base::Result<Node*> NodeGraph::claim(std::string_view id, const CursorListener* writer) {
  auto found = node(id);
  if (!found) return found;
  Node& n = **found;
  if (n.claimed_ || n.touched() || n.dropped_)
    return failure(Code::kAlreadyExists, describe_node(id) + ": the id of an output must be new");
  n.claimed_ = true;
  n.writer_ = writer;
  ++n.pins_;  // until it is complete or has failed
  return found;
}

Status NodeGraph::charge(uint64_t bytes, const Node& node, int64_t seq, uint64_t elsewhere) {
  Status s = memory_.take(bytes, elsewhere);
  if (!s.ok()) s.text = describe_fragment(node.id_, seq) + ": " + s.text;
  return s;
}

base::Result<NodeGraph::Fate> NodeGraph::add(const Fragment& sent) {
  Fragment f = sent;
  if (is_empty_chunk(f)) f.has_chunk = false, f.metadata = nullptr;
  auto found = node(f.node);
  if (!found) return found.error();
  Node& n = **found;
  if (f.seq < 0) return broken(n.id_, f.seq, "a sequence number must not be negative");
  if (n.claimed_) return broken(n.id_, f.seq, "the node is the output of an action");
  if (n.dropped_) return broken(n.id_, f.seq, "the node has been dropped");
  if (n.has(f.seq)) return Fate::kDuplicate;
  if (Status s = check(n, f); !s.ok()) return s;
  if (Status s = take(n, f); !s.ok()) return s;
  return Fate::kTaken;
}

bool NodeGraph::fits(const Fragment& f) const {
  uint64_t cost = cost_of(f) + (f.metadata ? cost_of(*f.metadata) : 0);
  auto count = [&](std::string_view id) { cost += by_name_.contains(id) ? 0 : kNodeCost + id.size(); };
  count(f.node);
  for (std::string_view id : f.children) count(id);
  return memory_.has_room_for(cost);
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
    return failure(Code::kResourceExhausted, describe_fragment(n.id_, f.seq) + ": more than " +
                                                 std::to_string(limits_.ahead) + " fragments wait for fragment " +
                                                 std::to_string(n.parts_.size()));
  return {};
}

Status NodeGraph::take(Node& n, const Fragment& f) {
  Node::Part part;
  part.cost = cost_of(f);
  const bool first = f.metadata && !n.metadata_;
  if (first) part.cost += cost_of(*f.metadata);
  if (Status s = charge(part.cost, n, f.seq, charged_elsewhere(f.data)); !s.ok()) return s;
  if (!n.touched()) spend(kStepsPerFirstPart);
  if (first) n.metadata_ = std::make_unique<Metadata>(*f.metadata);
  if (f.has_chunk) n.kind_ = Node::Kind::kLeaf;
  if (!f.children.empty()) n.kind_ = Node::Kind::kBranch;
  if (!f.continued) n.final_ = f.seq;
  n.highest_ = std::max(n.highest_, f.seq);
  part.chunk = f.has_chunk;
  part.described = f.metadata != nullptr;
  part.data = compact(f.data);
  part.pending = f.by_reference;
  n.pending_ += f.by_reference;
  Node::Part& kept = n.ahead_.emplace(f.seq, std::move(part)).first->second;
  Status s = link(n, kept, f);
  return s.ok() ? extend(n) : s;
}

// The edges stay where they are as long as the part.
Status NodeGraph::link(Node& n, Node::Part& part, const Fragment& f) {
  part.children.reserve(f.children.size());
  for (std::string_view id : f.children) {
    auto child = node(id);
    if (!child) {
      Status s = std::move(child).error();
      s.text = describe_fragment(n.id_, f.seq) + ": child: " + s.text;
      return s;
    }
    Node::Edge& edge = part.children.emplace_back(Node::Edge{*child, (*child)->parents_.size()});
    (*child)->parents_.push_back({&n, &edge});
    if (Status s = heights_.add_edge(n, **child, f.seq); !s.ok()) return s;
  }
  return {};
}

// Where many fragments have waited for one, the rest of them follow in later turns.
Status NodeGraph::extend(Node& n) {
  auto at = n.ahead_.begin();
  const auto follows = [&] { return at != n.ahead_.end() && at->first == int64_t(n.parts_.size()); };
  uint64_t moved = 0;
  for (; follows() && (moved == 0 || !paused()); ++moved) {
    // Only now is it known which chunk is the first: fragments without one may lie before it.
    if (at->second.chunk && !std::exchange(n.begun_, true) && !at->second.described)
      return broken(n.id_, at->first, "the first chunk needs metadata");
    n.parts_.push_back(std::move(at->second));
    at = n.ahead_.erase(at);
    if (moved % kPartsPerStep == kPartsPerStep - 1) spend(1);
  }
  if (const bool grows = follows(); grows && !std::exchange(n.growing_, true))
    growing_.push_back(&n);
  else if (!grows && std::exchange(n.growing_, false))
    std::erase(growing_, &n);
  if (moved > 0) wake(n);
  return {};
}

void NodeGraph::wake(Node& n) {
  for (Cursor* c : n.waiting_) c->list_ = &woken_;
  woken_.splice(woken_.end(), n.waiting_);
}

Status NodeGraph::deliver() {
  if (!free_discarded()) return {};
  while (!growing_.empty() && !paused())
    if (Status s = extend(*growing_.front()); !s.ok()) return s;
  while (!woken_.empty() && !paused()) {
    Cursor* c = woken_.front();
    c->leave_list();
    c->listener_.on_news(*c);
  }
  return {};
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
  if (Status s = charge(data.size() + kSlabCost, n, seq, charged_elsewhere(data)); !s.ok()) return s;
  part->cost += data.size() + kSlabCost;
  part->data = compact(std::move(data));
  part->pending = false;
  --n.pending_;
  wake(n);
  return {};
}

// Takes the content away. What it takes to free it, and the edges to its children, goes as turns have time; until then
// the name stays.
void NodeGraph::discard(Node& n, DropScope scope) {
  n.dropped_ = true;
  if (!n.parts_.empty() || !n.ahead_.empty()) {
    discarded_.push_back({n, scope, std::exchange(n.parts_, {}), std::exchange(n.ahead_, {})});
    ++n.discards_;
  }
  n.metadata_.reset();
  n.pending_ = 0;
  if (std::exchange(n.growing_, false)) std::erase(growing_, &n);
  n.failed_ = failure(Code::kNotFound, describe_node(n.id_) + " has been dropped");
  wake(n);
  forget(n);
}

void NodeGraph::forget(Node& n) {
  if (!n.dropped_ || n.pins_ > 0 || n.discards_ > 0 || !n.parents_.empty() || !n.waiting_.empty()) return;
  memory_.give(kNodeCost + n.id_.size());
  if (on_forget) on_forget(n.id_);
  by_name_.erase(by_name_.find(n.id_));
}

Status NodeGraph::drop(Node& root, DropScope scope) {
  if (root.open())
    return failure(Code::kFailedPrecondition, describe_node(root.id_) + " is the output of an action that still runs");
  if (root.dropped_)
    forget(root);
  else
    discard(root, scope);
  (void)free_discarded();
  return {};
}

bool make_children(NodeGraph& graph, const Fragment& f) {
  if (f.children.size() <= kChildrenAtOnce) return true;
  const Node* parent = graph.find(f.node);
  if (parent && (parent->dropped() || parent->claimed() != parent->open() || parent->has(f.seq))) return true;
  const size_t before = graph.nodes();
  for (std::string_view id : f.children) {
    if (graph.nodes() - before >= kChildrenAtOnce) return false;
    if (!graph.node(id)) return true;  // add() says why
  }
  return graph.nodes() == before;
}

}  // namespace weir::evergreen
