// NodeTable: the nodes by their entries in the bucket, as this node sees them: what each says of itself, whether it is
// there, and since when it says nothing new. Pure.
//
// A node is there while it has an entry that is no mark, and has not been silent for `gone` on this node's clock; while
// the bucket is away nobody is gone. A silent one is remembered for long enough to be fenced.
//
// Bounds: Rules::most_nodes have an entry, as many are remembered that have none, and all together have
// Rules::most_models. An entry that is too long, malformed, or without the right MAC is refused, and takes no place.
//
// One thread. The Env and the Rules outlive this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "cluster/bucket.h"
#include "cluster/node.h"
#include "cluster/rules.h"

namespace weir::cluster {

class NodeTable {
 public:
  struct Seen {
    Node node;
    uint64_t revision = 0;
    bool there = false;    // an entry, and no mark of JetStream that it was erased
    bool present = false;  // counts as a node
    bool told = false;     // as of the last tell()
    base::Time since{};    // this revision was seen first, or the bucket came back
    // The latest incarnation that was looked for in vain, 0: none; and since when.
    uint64_t missed = 0;
    base::Time missed_since{};
  };
  // Called from inside of this.
  struct Listener {
    std::function<bool()> away;  // whether the bucket is
    // Nodes have joined, left, or say something else of themselves. After it: which one.
    std::function<void()> changed;
    std::function<void(const Node&)> joined, left;
    // An entry is not taken, and why: called once for each key until it is taken again, and for kMostComplaints keys.
    std::function<void(const std::string& key, const std::string& why)> refused;
  };
  static constexpr std::string_view kPrefix = "node.";  // of keys
  static constexpr size_t kMostComplaints = 64;
  static std::string key_of(const std::string& id) { return std::string(kPrefix) + id; }

  // `self`: this node's id, whose entry counts as nobody's. `entry_key`: Secrets::entry_key.
  NodeTable(base::Env& env, const Rules& rules, std::string entry_key, std::string self, Listener listener)
      : env_(env),
        rules_(rules),
        entry_key_(std::move(entry_key)),
        self_(std::move(self)),
        listener_(std::move(listener)) {}
  NodeTable(const NodeTable&) = delete;

  // Takes an entry that the bucket has, or had; of keys that are no nodes', too.
  void on_entry(const Bucket::KeyValue& entry);
  // This node's entry, which another process has written. True: it has been the same for `gone`.
  bool on_own_entry(const Bucket::KeyValue& entry);
  // Its time in the bucket is over, or it was never there. Null: it is not known, and there is no room for it.
  const Seen* see_absent(const std::string& id);
  // The bucket has no entry of that incarnation, nor of a later one, whose session was read before. It has no beat
  // taken any more, so that it has as long as one that was seen when this was first said.
  void miss(const std::string& id, uint64_t incarnation);
  // Everybody's silence counts from now on.
  void restart_silence();
  // Time has passed: tells who is gone, and forgets who has been gone for long.
  void tick();

  // The nodes that are there, without this one; as they were last seen, while the bucket is away.
  std::vector<const Node*> nodes() const;
  // How many those are.
  size_t present() const { return present_; }
  // The same nodes; those with an address are told() from now on, and no others.
  std::vector<const Node*> tell();
  bool told(const std::string& id) const;
  // Null: it is not there.
  const Node* find(const std::string& id) const;
  // Also who is not there any more. Null: it is not known.
  const Seen* seen(const std::string& id) const;
  // Those that are not fenced and have been silent for `time`.
  std::vector<const Seen*> silent_for(base::Duration time) const;
  uint64_t refused() const { return refused_; }

 private:
  base::Result<Node> read(const Bucket::KeyValue& entry, const Seen& seen) const;
  bool has_room_for(const Seen& seen) const;
  bool is_of_later_life(const Bucket::KeyValue& entry, const Seen& seen) const;
  bool take(const Bucket::KeyValue& entry, Seen& seen);
  enum class State : uint8_t { kAbsent, kThere };
  void set_entry(Seen& seen, uint64_t revision, State state);
  void update(Seen& seen);
  void refuse(const std::string& key, const base::Status& why);

  base::Env& env_;
  const Rules& rules_;
  const std::string entry_key_, self_;
  const Listener listener_;
  std::map<std::string, Seen> seen_;             // by id
  size_t there_ = 0, present_ = 0, models_ = 0;  // of seen_
  std::set<std::string> complained_;             // keys of entries that are not taken
  uint64_t refused_ = 0;
};

}  // namespace weir::cluster
