// Nodes, and the fragments that make them.
//
//   node   = leaf: chunks in order of seq, with one Metadata       | branch: children in order of seq and, inside a
//            fragment, as listed; a child may be under several parents, or twice under one, but never under itself
//   prefix = the fragments 0, 1, … without a gap; a reference that is not loaded yet ends it
//   flattening a node = its leaves from left to right, each one's chunks in order
#pragma once

#include <boost/container/deque.hpp>
#include <boost/container/options.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "dialects/evergreen/graph/session_memory.h"

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
  uint64_t climbs_at_once = 512 << 10;  // of these for one edge: some milliseconds
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
  bool by_reference = false;  // the data comes later, by NodeGraph::loaded()
  uint64_t read_steps = 0;    // of TurnBudget, that reading it took
};

// The visits of a flattening, and the bytes that it gives. Saturating at 2^63.
struct FlatSize {
  uint64_t visits = 0, bytes = 0;
};

class Cursor;
class CursorListener;

// One node. Read by whoever has it, changed by its NodeGraph.
class Node {
 public:
  std::string_view id() const { return id_; }
  // No other node of the graph has it, of whatever name: a name that was forgotten may come again as another node.
  uint64_t serial() const { return serial_; }
  bool complete() const { return final_ >= 0 && int64_t(parts_.size()) == final_ + 1 && pending_ == 0; }
  bool touched() const { return highest_ >= 0; }  // a fragment has come
  bool claimed() const { return claimed_; }
  // An action's output that is neither complete nor failed: it is being written, and stays.
  bool open() const { return claimed_ && !complete() && failed_.ok(); }
  int64_t next() const { return int64_t(parts_.size()); }  // the first seq that is missing
  bool has(int64_t seq) const { return seq < int64_t(parts_.size()) || ahead_.contains(seq); }
  const Metadata* metadata() const { return metadata_.get(); }
  bool dropped() const { return dropped_; }
  // Higher than all of its children; of no meaning by itself.
  uint32_t height() const { return height_; }

  // A fragment of the prefix, as it was taken. It is good as long as nothing happens to the node.
  struct PartView {
    const base::Bytes& data;
    bool chunk;      // it has data, maybe none
    bool described;  // it brought metadata()
    size_t children;
  };
  size_t parts() const { return parts_.size(); }
  PartView part(size_t i) const {
    const Part& p = parts_[i];
    return {p.data, p.chunk, p.described, p.children.size()};
  }
  std::string_view child(size_t part, size_t i) const { return parts_[part].children[i].child->id(); }

 private:
  friend class NodeGraph;
  friend class NodeHeights;
  friend class FlattenBudget;
  friend class Cursor;
  // No Cursor is left that stands in it or waits for it.
  void check_unused() const;
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
  static constexpr size_t kParentsPerBlock = 8;
  struct Part {
    Part() = default;
    Part(Part&&) noexcept = default;
    Part& operator=(Part&&) noexcept = default;

    base::Bytes data;
    std::vector<Edge> children;
    uint64_t cost = 0;  // without what `charge` has
    Hold charge;        // for `data`, once somebody else holds it
    bool chunk = false;
    bool described = false;  // it brought metadata
    bool pending = false;    // a reference that is not loaded
  };

  using Parts = boost::container::deque<Part>;  // grows without moving what is there, and is no memory while empty
  using Ahead = std::map<int64_t, Part>;
  // Grows without moving what is there, too: a child may have a million parents. Most have one.
  using Parents =
      boost::container::deque<Parent, void,
                              boost::container::deque_options<boost::container::block_size<kParentsPerBlock>>::type>;

  std::string id_;
  uint64_t serial_ = 0;
  Kind kind_ = Kind::kUnknown;
  bool claimed_ = false, dropped_ = false;
  bool begun_ = false;    // the prefix has a chunk
  bool growing_ = false;  // NodeGraph::growing_ has it
  int64_t final_ = -1, highest_ = -1;
  uint32_t height_ = 1;    // nodes on the longest path below it, itself included
  uint32_t pins_ = 0;      // Cursors that stand in it
  uint32_t discards_ = 0;  // 1: NodeGraph::discarded_ has what it had
  uint32_t pending_ = 0;   // references that are not loaded
  Parts parts_;            // the prefix, and behind it nothing
  Ahead ahead_;            // what waits for an earlier one
  std::unique_ptr<Metadata> metadata_;
  base::Status failed_;
  Parents parents_;  // one entry per edge
  std::list<Cursor*> waiting_;
  // Only compared, while the node is open.
  const CursorListener* writer_ = nullptr;
  uint64_t mark_ = 0;  // the measuring that size_ is of
  FlatSize size_;
};

}  // namespace weir::evergreen
