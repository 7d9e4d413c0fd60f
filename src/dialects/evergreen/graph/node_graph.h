// NodeGraph: the nodes of one Evergreen session (node.h), as they arrive: in pieces, in any order, some of them twice.
//
// Rules (the protocol's text, as the specification's own examples read it). Of fragments with one seq the first counts
// and the others are ignored, whatever they say. A fragment has a chunk, or children, or neither; not both. Nothing may
// lie beyond the final fragment, and a node's fragments are all of one kind. Metadata comes with the first chunk;
// elsewhere it is absent or equal. A later chunk that is empty and of no particular type, by which some clients end a
// node, is a fragment with neither. Everything else is an error, which names node, seq and rule and after which the
// graph is of no further use.
//
// Nothing here recurses, and depth costs little: a conversation may nest one level per turn. Dropping is linear in the
// edges of what is dropped. What Cursors visit is limited for the session (FlattenBudget), and for one turn of the
// shard's loop (TurnBudget): where that is spent a Cursor says kWait and goes on with deliver() in a later turn.
//
// Memory: what is kept of a fragment is charged. Data stays where it is if it is most of its slab, else it is copied,
// so that no fragment keeps a message alive that was charged to nobody.
//
// Deterministic; one thread. A Cursor is told of news by NodeGraph::deliver(), never from inside another call.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sip_hash.h"
#include "base/status.h"
#include "dialects/evergreen/graph/flatten_budget.h"
#include "dialects/evergreen/graph/node.h"
#include "dialects/evergreen/graph/node_heights.h"
#include "dialects/evergreen/graph/session_memory.h"
#include "dialects/evergreen/graph/turn_budget.h"

namespace weir::evergreen {

// Whether a NodeGraph copies the data, because it is a small part of its slab. It copies all of it at once, so a caller
// with long data must copy it before, over several turns.
bool is_copied(const base::Bytes& data);
// How many bytes of the data lie in memory that is charged elsewhere, or will: those of a slab that keeps them.
uint64_t charged_elsewhere(const base::Bytes& data);

class NodeGraph {
 public:
  // `reservation` (null: none) holds what the graph does, `turn_budget` (null: without limit) is the shard's; they
  // outlive it. `key` keys the table of names: a secret one where peers choose them.
  explicit NodeGraph(GraphLimits limits, session::Reservation* reservation = nullptr, TurnBudget* turn_budget = nullptr,
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

  // The node of that name, which may not have come yet. Errors: INVALID_ARGUMENT (no name), RESOURCE_EXHAUSTED.
  base::Result<Node*> node(std::string_view id);
  Node* find(std::string_view id);
  // The node of that name for an action to fill. `writer`: whose Cursors must not read it while it is open; it lives
  // as long as that. Errors: ALREADY_EXISTS when it has fragments or another action has it.
  base::Result<Node*> claim(std::string_view id, const CursorListener* writer = nullptr);
  // Ends an open node early: those who read it fail with `why`.
  void fail(Node& node, base::Status why);
  // The bytes of a reference that add() has taken. Errors: RESOURCE_EXHAUSTED.
  base::Status loaded(Node& node, int64_t seq, base::Bytes data);

  // Lets go of the content and, once no parent and no Cursor needs it, of the name. Whoever reads it or is about to
  // gets NOT_FOUND. kWithChildren: also of all descendants that have no other parent left. Where there is much of it,
  // the rest goes in later turns, by deliver(), before anything else does. Errors: FAILED_PRECONDITION for an open
  // node.
  enum class DropScope : uint8_t { kNode, kWithChildren };
  base::Status drop(Node& node, DropScope scope);

  // The graph is of no further use: frees its nodes until the turn's steps are spent. No Cursor is left. Returns true
  // when none is left either.
  bool dismantle();

  // Tells Cursors that waited for what has come since, or for this turn, until the turn's steps are spent. They may be
  // destroyed, and others made, from inside. Errors: those of add(), of fragments that it has taken in an earlier turn.
  base::Status deliver();
  // Some Cursors have not been told yet, fragments that have come have not been put behind those before them, or what
  // was dropped has not been freed.
  bool undelivered() const { return !woken_.empty() || !growing_.empty() || !discarded_.empty(); }

  SessionMemory& memory() { return memory_; }
  const SessionMemory& memory() const { return memory_; }
  FlattenBudget& flatten_budget() { return flatten_budget_; }
  size_t nodes() const { return by_name_.size(); }
  // Calls `on_node` with each node, in no particular order, until that returns false.
  template <class OnNode>
  void each(OnNode on_node) const {
    for (const auto& [id, node] : by_name_)
      if (!on_node(std::as_const(*node))) return;
  }

  // Told of each name that is forgotten, or empty. It leaves the graph alone, and does not throw.
  std::function<void(std::string_view id)> on_forget;

 private:
  friend class Cursor;
  base::Status check(const Node& node, const Fragment& f) const;
  base::Status take(Node& node, const Fragment& f);
  base::Status link(Node& node, Node::Part& part, const Fragment& f);
  base::Status charge(uint64_t bytes, const Node& node, int64_t seq, uint64_t elsewhere = 0);
  base::Status extend(Node& node);
  void wake(Node& node);
  bool free_discarded();
  void discard(Node& node, DropScope scope);
  void forget(Node& node);
  void spend(uint64_t steps) {
    if (turn_budget_) turn_budget_->spend(steps);
  }
  bool paused() const { return turn_budget_ && turn_budget_->spent(); }

  // The content of a node that was dropped.
  struct Discarded {
    Node& node;
    DropScope scope;
    Node::Parts parts;
    Node::Ahead ahead;
  };

  const GraphLimits limits_;
  SessionMemory memory_;
  TurnBudget* const turn_budget_;
  FlattenBudget flatten_budget_;
  NodeHeights heights_;
  base::PeerMap<std::string_view, std::unique_ptr<Node>> by_name_;  // the key is the Node's own
  uint64_t last_serial_ = 0;
  std::list<Cursor*> woken_;
  std::deque<Discarded> discarded_;
  std::vector<Node*> growing_;  // their next fragment lies in ahead_
};

// Makes nodes for the children of a fragment that has many, a thousand in one go: called once in a turn until it
// returns true, it leaves add() or append() only the edges. True also where those refuse the fragment or ignore it.
bool make_children(NodeGraph& graph, const Fragment& fragment);

}  // namespace weir::evergreen
