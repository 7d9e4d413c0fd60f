// Membership: which nodes there are, by what each writes into the bucket once a second, and this node's own entry.
//
// No clock is compared with another machine's: a node is gone when its entry has not changed for `gone` on the clock of
// whoever looks. What a node owns, it owns by a lease that ends `lease` after its last beat that the bucket has taken
// was sent, on its own clock. Another node may write "fenced" in the place of its entry, expecting the revision that it
// has seen unchanged for `gone`: where that succeeds, the last beat is older than `gone`, the lease is over (as long as
// lease / (1 - drift) < gone / (1 + drift), which for 4 s and 5 s holds up to 11 %), and the node's next beat fails,
// whatever its watch has told it. It then joins anew, under another incarnation, and owns nothing.
//
// While the bucket is away nobody is gone: this node goes on with those it knows. Its lease does so by way of another
// node that reaches the bucket (relayed_bucket.h), or by the promises of all that could fence it (promises.h). Whoever
// comes back to the bucket counts everybody's silence from then on, and fences nobody before.
//
// A node that was not named in the entry of a silent one waits for `stranger`, as it does where the entry is not there
// any more. Therefore the others fence a silent node while its entry is there (`fence_after`), asked or not.
//
// One thread. The Env and the Bucket outlive this.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/env.h"
#include "cluster/bucket.h"
#include "cluster/node.h"
#include "cluster/promises.h"

namespace weir::cluster {

struct Rules {
  base::Duration beat = std::chrono::seconds(1), gone = std::chrono::seconds(5), lease = std::chrono::seconds(4);
  base::Duration fence_after = std::chrono::seconds(15);  // less than the life of an entry
  base::Duration alone = std::chrono::seconds(300);       // the same on all nodes; 0: never
  size_t most_nodes = 1024;
  size_t most_models = 65536;  // of all nodes
  // As lease to gone.
  base::Duration stranger(base::Duration its_alone) const { return std::max<base::Duration>(gone, its_alone * 5 / 4); }
};

class Membership {
 public:
  struct Listener {
    // Nodes have joined, left, or say something else of themselves. Called from inside of this.
    std::function<void()> changed;
    std::function<void(const Node&node)> joined, left;
    // This node's incarnation is over: it owns nothing any more.
    std::function<void()> fenced;
    // A beat was taken, or all have promised, so that the lease is longer.
    std::function<void(base::Time until)> leased;
    // An entry is not taken, and why: called once for each key until it is taken again, and for kMostComplaints keys.
    std::function<void(const std::string& key, const std::string& why)> refused;
  };
  static constexpr std::string_view kPrefix = "node.";  // of keys
  static constexpr size_t kMostComplaints = 64;

  // `self`: what is said of this node, without incarnation and beat. `peers`: null: nobody can be asked.
  Membership(base::Env& env, Bucket& bucket, Rules rules, std::string entry_key, Node self, Listener listener,
             Peers* peers = nullptr);
  ~Membership();
  Membership(const Membership&) = delete;

  // The bucket can be watched: beats from now on, also while it is away. What is watched comes by on_entry().
  void connected();
  void disconnected();
  void on_entry(const Bucket::KeyValue& entry);
  // The content of the next beats.
  Node& self() { return self_; }
  const Node& self() const { return self_; }
  // A beat at once: something has changed.
  void beat_now();
  // Erases the entry, so that the others need not wait. `then` is called once, also where that fails.
  void leave(std::function<void()> then);

  // This node may answer for what it owns, now.
  bool has_lease() const { return env_.now() < lease_until_; }
  bool away() const { return !connected_ || !reached_; }
  bool watches() const { return connected_; }
  // How many nodes the last beat that was taken has named (promises.h).
  size_t named() const { return promises_.named(); }
  // A beat was taken last, this way or that.
  bool reaches_bucket() const { return reached_; }
  // The nodes that are there, without this one; as they were last seen, while the bucket is away.
  std::vector<const Node*> nodes() const;
  // Null: it is not there.
  const Node* find(const std::string& id) const;

  // Whether that incarnation owns nothing any more: writes "fenced" where it has been silent long enough. OK: it does
  // not. FAILED_PRECONDITION: it is there. UNAVAILABLE: not known now, worth another try.
  void fence(const std::string& id, uint64_t incarnation, std::function<void(base::Status)> then);

  // Promises another node that this one fences nobody before the lease is over that it is about to renew, and returns
  // this node's incarnation. FAILED_PRECONDITION: that would be a lie.
  base::Result<uint64_t> promise(const std::string& id, uint64_t incarnation) const;

  uint64_t refused_entries() const { return refused_; }

 private:
  struct Seen {
    Node node;
    uint64_t revision = 0;
    bool there = false;    // an entry, and no mark
    bool present = false;  // counts as a node
    base::Time since{};    // this revision was seen first, or the bucket came back
  };
  static std::string key_of(const std::string& id) { return std::string(kPrefix) + id; }
  using SeenMap = std::map<std::string, Seen>;  // by id
  SeenMap::iterator see_absent(const std::string& id);
  base::Result<Node> read(const Bucket::KeyValue& entry, const Seen& seen) const;
  bool is_of_later_life(const Bucket::KeyValue& entry, const Seen& seen) const;
  bool take(const Bucket::KeyValue& entry, Seen& seen);
  void update(Seen& seen);
  void tick();
  void arm();
  void beat();
  void beat_written(base::Time sent, base::Result<uint64_t> revision);
  void look_at_own();
  void own_entry(base::Result<Bucket::KeyValue> entry);
  void join_anew();
  void outdo(uint64_t incarnation);
  void write_fence(const std::string& id, uint64_t incarnation, std::function<void(base::Status)> then);
  bool silent(const Seen& seen) const { return env_.now() - seen.since >= rules_.gone; }
  bool may_fence(const Seen& seen) const;
  void forget_silent();
  void fence_silent();
  void name_fencers();
  void set_reached(bool reached);
  void lost_bucket();

  base::Env& env_;
  Bucket& bucket_;
  const Rules rules_;
  const std::string entry_key_;
  Node self_;
  const Listener listener_;
  SeenMap seen_;  // this node's, too; at most twice most_nodes
  Promises promises_;
  std::map<std::string, uint64_t> fencing_;  // id → the revision that a write of "fenced" expects, which may yet come
  bool connected_ = false, leaving_ = false;
  bool reached_ = false;
  bool busy_ = false;        // a beat, or a look at the own entry, is under way
  bool uncertain_ = false;   // what the own entry is: it is looked at before the next beat
  uint64_t revision_ = 0;    // of the own entry
  uint64_t taken_beat_ = 0;  // the last one of this incarnation that was taken
  base::Time lease_until_{};
  base::TimerId timer_ = base::TimerId::kNone;
  bool looked_ = false;               // at the own entry, since the last tick
  size_t models_ = 0;                 // of seen_
  std::set<std::string> complained_;  // keys of entries that are not taken
  uint64_t refused_ = 0;
};

}  // namespace weir::cluster
