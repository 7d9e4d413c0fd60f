// NodeGraph: the nodes of one Evergreen session, as they arrive: in pieces, in any order, some of them twice.
//
//   node   = leaf: chunks in order of seq, with one Metadata       | branch: children in order of seq and, inside a
//            fragment, as listed; a child may be under several parents, or twice under one, but never under itself
//   prefix = the fragments 0, 1, … without a gap; a reference that is not loaded yet ends it
//   flattening a node = its leaves from left to right, each one's chunks in order
//
// Rules (the protocol's text, as the specification's own examples read it). Of fragments with one seq the first counts
// and the others are ignored, whatever they say. A fragment has a chunk, or children, or neither; not both. Nothing may
// lie beyond the final fragment, and a node's fragments are all of one kind. Metadata comes with the first chunk;
// elsewhere it is absent or equal. A later chunk that is empty and of no particular type, by which some clients end a
// node, is a fragment with neither. Everything else is an error, which names node, seq and rule and after which the
// graph is of no further use.
//
// Nothing here recurses, and depth costs little: a conversation may nest one level per turn. Cycles and too deep
// nesting are found at the edge that makes them: every node has a height, the number of nodes on the longest path below
// it with itself, which only rises, and an edge to a child that is as high raises what is above. A parent over what is
// there already, the next turn of a conversation, raises nothing. What a hostile order costs has a limit of its own.
// Dropping is linear in the edges of what is dropped.
//
// Time: what Cursors visit is limited for the session (GraphLimits::visits), and for one turn of the shard's loop by
// its TurnBudget: where they are spent a Cursor says kWait and goes on with deliver() in a later turn.
//
// Memory: what is kept of a fragment is charged. Data stays where it is if it is most of its slab, else it is copied,
// so that no fragment keeps a message alive that was charged to nobody.
//
// Deterministic; one thread. A Cursor is told of news by NodeGraph::deliver(), never from inside another call.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "session/byte_quota.h"
#include "session/turn_budget.h"

namespace weir::evergreen {

struct GraphLimits {
  uint32_t nodes = 10'000;
  uint32_t depth = 4096;         // nodes on a path
  uint32_t ahead = 1'000'000;    // fragments of one node that wait for an earlier one; `bytes` is the usual bound
  uint64_t bytes = 64 << 20;     // of data, and what keeping it costs
  uint64_t flattened = 1 << 20;  // leaves, branches and chunks that one flattening visits
  uint64_t flattened_bytes = 64 << 20;
  // Visits of all flattenings together: a session begins with so many, and each message brings more, up to that again.
  // Each takes up to a microsecond of the shard.
  uint64_t visits = 2 << 20;
  uint64_t visits_per_message = 256 << 10;
  uint64_t climbs = 4 << 20;  // edges that are followed upwards to keep heights, in all: a chain of 2,896 from its root
};

// "node 'x'", and "node 'x', fragment 3"; long names are cut.
std::string describe_node(std::string_view node);
std::string describe_fragment(std::string_view node, int64_t seq);

// The part of a leaf's fragments that must agree; it comes with the first chunk.
struct Metadata {
  std::string mimetype, role, file_name;
  std::string other;  // capture time and experimental parts, in one spelling: only compared and passed on
  friend bool operator==(const Metadata&, const Metadata&) = default;
};

// A fragment as it came; the views live as long as the call that gets it.
struct Fragment {
  std::string_view node;
  int64_t seq = 0;
  bool continued = false;
  std::span<const std::string_view> children;
  bool has_chunk = false;
  const Metadata* metadata = nullptr;  // of the chunk; null when it has none
  base::Bytes data;
  bool by_reference = false;  // the data comes later, by loaded()
};

class Cursor;
class Node;

// Saturating at 2^63.
struct FlatSize {
  uint64_t visits = 0, bytes = 0;
};

// The charge for a chunk's bytes: whoever keeps the bytes keeps this as long, also when the node has been dropped. Dies
// before the graph.
using Hold = std::shared_ptr<const void>;

class NodeGraph {
 public:
  class Charge;
  // `account` (null: none) holds what the graph does, `turn_budget` (null: without limit) are the shard's; they outlive
  // it. `key` keys the table of names: a secret one where peers choose them.
  explicit NodeGraph(GraphLimits limits, session::Reservation* account = nullptr, TurnBudget* turn_budget = nullptr,
                     const base::HashKey& key = {});
  ~NodeGraph();  // after its Cursors
  NodeGraph(const NodeGraph&) = delete;

  enum class Fate : uint8_t { kTaken, kDuplicate };
  // From the peer. Errors: INVALID_ARGUMENT (the rules; a node that is an action's output), RESOURCE_EXHAUSTED
  // (limits).
  base::Result<Fate> add(const Fragment& fragment);
  // Whether there is room for it. True means that add() does not fail for want of bytes; false may be wrong about a
  // fragment that has come before.
  bool fits(const Fragment& fragment) const;
  // The next fragment of a node that an action makes; `seq` is ignored. Errors: as above.
  base::Status append(Node& node, Fragment fragment);

  // Charges memory that the session keeps beside nodes like their content: `now` bytes where it was `before`. Errors:
  // RESOURCE_EXHAUSTED, and nothing changes.
  base::Status keep(uint64_t before, uint64_t now);
  bool has_room_for(uint64_t bytes) const { return bytes <= limits_.bytes && bytes_ <= limits_.bytes - bytes; }

  // The node of that name, which may not have come yet. Errors: INVALID_ARGUMENT (no name), RESOURCE_EXHAUSTED.
  base::Result<Node*> node(std::string_view id);
  Node* find(std::string_view id);
  // The node of that name for an action to fill. Errors: ALREADY_EXISTS when it has fragments or another action has it.
  base::Result<Node*> claim(std::string_view id);
  // No more will come to an open node: who reads it hears `why`.
  void fail(Node& node, base::Status why);
  // The bytes of a reference that add() has taken. Errors: RESOURCE_EXHAUSTED.
  base::Status loaded(Node& node, int64_t seq, base::Bytes data);

  // Lets go of the content and, once no parent and no Cursor needs it, of the name. Whoever reads it or is about to
  // hears NOT_FOUND. kWithChildren: also of all descendants that have no other parent left. Errors: FAILED_PRECONDITION
  // for an open node.
  enum class Reach : uint8_t { kNode, kWithChildren };
  base::Status drop(Node& node, Reach reach);

  // Tells what flattening would give of what is there, by memoised sums: cheap also where the answer is 2^40.
  FlatSize measure(Node& node);

  // A message has come: Cursors may visit more.
  void refill_visits();

  // Tells Cursors that waited for what has come since, or for this turn, until the turn's steps are spent. They may be
  // destroyed, and others made, from inside.
  void deliver();
  // Some Cursors have not been told yet.
  bool undelivered() const { return !woken_.empty(); }
  // Work that others do with the nodes, in steps of TurnBudget.
  void spend(uint64_t steps) {
    if (turn_budget_) turn_budget_->spend(steps);
  }
  // No more work in this turn.
  bool paused() const { return turn_budget_ && turn_budget_->spent(); }

  uint64_t bytes() const { return bytes_; }
  size_t nodes() const { return by_name_.size(); }
  const GraphLimits& limits() const { return limits_; }

 private:
  friend class Cursor;
  base::Status check(const Node& node, const Fragment& f) const;
  base::Status take(Node& node, const Fragment& f);
  base::Status raise(Node& parent, Node& child, int64_t seq);
  bool reaches(Node& from, const Node& to);
  base::Status extend(Node& node);
  void wake(Node& node);
  base::Status charge(uint64_t bytes);
  base::Status charge(uint64_t bytes, const Node& node, int64_t seq);
  bool measure(Node& root, uint64_t most);
  void unlink(Node& node, std::vector<Node*>& orphans);
  void forget(Node& node);

  void refund(uint64_t bytes);

  GraphLimits limits_;
  session::Reservation* reservation_;
  TurnBudget* turn_budget_;
  uint64_t bytes_ = 0;
  uint64_t climbed_ = 0;
  uint64_t visits_left_;
  uint64_t measured_ = 0;                                           // visits that the last measure() took
  uint64_t epoch_ = 0;                                              // of marks in nodes
  base::PeerMap<std::string_view, std::unique_ptr<Node>> by_name_;  // the key is the Node's own
  std::vector<Node*> work_;
  std::list<Cursor*> woken_;
};

// One node. Read by whoever has it, changed by its graph.
class Node {
 public:
  std::string_view id() const { return id_; }
  bool complete() const { return final_ >= 0 && int64_t(parts_.size()) == final_ + 1 && pending_ == 0; }
  bool touched() const { return highest_ >= 0; }  // a fragment has come
  bool claimed() const { return claimed_; }
  // An action's output that is neither complete nor failed: it is being written, and stays.
  bool open() const { return claimed_ && !complete() && failed_.ok(); }
  int64_t next() const { return int64_t(parts_.size()); }  // the first seq that is missing
  const Metadata* metadata() const { return metadata_.get(); }

 private:
  friend class NodeGraph;
  friend class Cursor;
  enum class Kind : uint8_t { kUnknown, kLeaf, kBranch };
  // An edge is known at both ends, each of which says where it is at the other: it goes in constant time.
  struct Edge {
    Node* child;
    size_t place;  // among the child's parents_
  };
  struct Parent {
    Node* node;
    Edge* edge;  // stays where it is as long as the Part that it is in
  };
  struct Part {
    Part() = default;
    Part(Part&&) noexcept = default;
    Part& operator=(Part&&) noexcept = default;

    base::Bytes data;
    std::vector<Edge> children;
    uint64_t cost = 0;                                // without what `charge` has
    std::shared_ptr<const NodeGraph::Charge> charge;  // for `data`, once somebody else holds it
    bool chunk = false;
    bool described = false;  // it brought metadata
    bool pending = false;    // a reference that is not loaded
  };

  std::string id_;
  Kind kind_ = Kind::kUnknown;
  bool claimed_ = false, dropped_ = false;
  bool begun_ = false;  // the prefix has a chunk
  int64_t final_ = -1, highest_ = -1;
  uint32_t height_ = 1;
  uint32_t pins_ = 0;              // Cursors that stand in it
  uint32_t pending_ = 0;           // references that are not loaded
  std::vector<Part> parts_;        // the prefix, and behind it nothing
  std::map<int64_t, Part> ahead_;  // what waits for an earlier one
  std::unique_ptr<Metadata> metadata_;
  base::Status failed_;
  std::vector<Parent> parents_;  // one entry per edge
  std::list<Cursor*> waiting_;
  uint64_t mark_ = 0;
  FlatSize size_;
};

class CursorListener {
 public:
  virtual void on_news(Cursor& cursor) = 0;

 protected:
  ~CursorListener() = default;
};

// A place in the flattening of one node, while it arrives. Dies before its graph.
class Cursor {
 public:
  // `listener` hears of news after next() has said kWait; it outlives this.
  Cursor(NodeGraph& graph, Node& root, CursorListener& listener);
  ~Cursor();
  Cursor(const Cursor&) = delete;

  enum class Step : uint8_t {
    kChunk,    // the next chunk of a leaf, maybe an empty one
    kLeafEnd,  // that leaf is complete
    kWait,     // for what has not come, or for the next turn; the listener will be told
    kEnd,
    kFailed,  // status() says why: a failed or dropped node, one that is too large when flattened, too many visits
  };
  Step next();
  // After kChunk, until the next call: the leaf that the chunk belongs to, and its bytes.
  const Node& leaf() const { return *leaf_; }
  const base::Bytes& data() const { return data_; }
  // Right after kChunk: the charge for data(), for a reader that keeps the bytes. Null when there are none.
  Hold hold();
  const base::Status& status() const { return status_; }
  // After kWait: what is missing, for a person: "node 'x', fragment 3". Empty where only the turn is over.
  std::string missing() const;
  // The memory that standing here takes.
  uint64_t size() const { return path_.capacity() * sizeof(Place); }

 private:
  friend class NodeGraph;
  struct Place {
    Node* node;
    size_t part = 0, child = 0;
  };
  void enter(Node& node);
  void leave();
  Step wait(Node& node);
  Step pause();
  void enlist(std::list<Cursor*>& list);
  void leave_list();
  Step fail(base::Status why);
  bool spent(uint64_t visits, uint64_t bytes);
  bool visit(uint64_t visits, uint64_t steps);

  NodeGraph& graph_;
  CursorListener& listener_;
  std::vector<Place> path_;
  std::list<Cursor*>* list_ = nullptr;  // a node's waiting_, the graph's woken_, or none
  std::list<Cursor*>::iterator place_{};
  Node* missing_ = nullptr;
  const Node* leaf_ = nullptr;
  base::Bytes data_;
  uint64_t visits_ = 0, bytes_ = 0;
  base::Status status_;
};

}  // namespace weir::evergreen
