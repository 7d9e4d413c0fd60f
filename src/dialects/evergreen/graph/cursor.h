// Cursor: a place in the flattening of one node, while that arrives.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/evergreen/graph/node_graph.h"

namespace weir::evergreen {

class CursorListener {
 public:
  virtual void on_news(Cursor& cursor) = 0;

 protected:
  ~CursorListener() = default;
};

// Reads a flattened node, leaf by leaf, while it arrives. The graph outlives it.
class Cursor {
 public:
  // After next() has returned kWait, `listener` is told when there is more to read. It outlives this.
  Cursor(NodeGraph& graph, Node& root, CursorListener& listener);
  ~Cursor();
  Cursor(const Cursor&) = delete;

  enum class Step : uint8_t {
    kChunk,    // the next chunk of a leaf, maybe an empty one
    kLeafEnd,  // that leaf is complete
    kWait,     // the next chunk has not come, or this turn is over; the listener will be told
    kEnd,
    kFailed,  // status() says why: a failed or dropped node, one that the listener itself is writing, one that is too
              // large when flattened, too many visits
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
  // The memory that the cursor's position takes, in bytes.
  uint64_t size() const { return path_.capacity() * sizeof(Place); }

 private:
  friend class NodeGraph;
  struct Place {
    Node* node;
    size_t part = 0, child = 0;
  };
  bool enter(Node& node);
  void leave();
  Step wait(Node& node);
  Step pause();
  void enlist(std::list<Cursor*>& list);
  void leave_list();
  Step fail(base::Status why);
  bool exceeds_limits(const FlatSize& size);
  bool visit(uint64_t visits, uint64_t steps);

  NodeGraph& graph_;
  CursorListener& listener_;
  std::vector<Place> path_;
  std::list<Cursor*>* list_ = nullptr;  // a node's waiting_, the graph's woken_, or none
  std::list<Cursor*>::iterator place_{};
  Node* missing_ = nullptr;
  const Node* leaf_ = nullptr;
  base::Bytes data_;
  FlatSize visited_;
  base::Status status_;
};

}  // namespace weir::evergreen
