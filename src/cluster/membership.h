// Membership: this node among the others: its own entry, which it writes into the bucket once a second, its lease, and
// by NodeTable and Fencing the others.
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
// One thread. The Env and the Bucket outlive this.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "cluster/bucket.h"
#include "cluster/fencing.h"
#include "cluster/node.h"
#include "cluster/node_table.h"
#include "cluster/promises.h"
#include "cluster/rules.h"

namespace weir::cluster {

class Membership {
 public:
  struct Listener {
    // Nodes have joined, left, or say something else of themselves. Called from inside of this.
    std::function<void()> changed;
    std::function<void(const Node&)> joined, left;
    // This node's incarnation is over: it owns nothing any more.
    std::function<void()> fenced;
    // A beat was taken, or all have promised, so that the lease is longer.
    std::function<void(base::Time until)> leased;
    // Another process has written under this node's name for so long that it is there, and not what is left of one that
    // has gone: no lease comes meanwhile. Once, until a beat is taken.
    std::function<void(const Node& other)> name_taken;
    // As NodeTable has it.
    std::function<void(const std::string& key, const std::string& why)> refused;
  };
  static constexpr std::string_view kPrefix = NodeTable::kPrefix;  // of keys

  // `self`: what is said of this node, without incarnation and beat. `peers`: null: nobody can be asked.
  Membership(base::Env& env, Bucket& bucket, Rules rules, std::string entry_key, Node self, Listener listener,
             Peers* peers = nullptr);
  ~Membership();
  Membership(const Membership&) = delete;

  // The bucket can be watched: beats from now on, also while it is away. What is watched comes by on_entry().
  void connected();
  void disconnected();
  void on_entry(const Bucket::KeyValue& entry) { others_.on_entry(entry); }
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
  // The other nodes that are there.
  std::vector<const Node*> nodes() const { return others_.nodes(); }
  NodeTable& others() { return others_; }
  Fencing& fencing() { return fencing_; }

 private:
  NodeTable::Listener table_listener();
  void tick();
  void arm();
  void beat();
  void beat_written(base::Time sent, base::Result<uint64_t> revision);
  void look_at_own();
  void own_entry(base::Result<Bucket::KeyValue> entry);
  void name_is_anothers(const Node& other);
  void join_anew();
  void outdo(uint64_t incarnation);
  void name_fencers();
  void set_reached(bool reached);
  void lost_bucket();

  base::Env& env_;
  Bucket& bucket_;
  const Rules rules_;
  const std::string entry_key_;
  Node self_;
  const Listener listener_;
  NodeTable others_;
  Fencing fencing_;
  Promises promises_;
  bool connected_ = false, leaving_ = false;
  bool reached_ = false;
  bool busy_ = false;        // a beat, or a look at the own entry, is under way
  bool uncertain_ = false;   // what the own entry is: it is looked at before the next beat
  uint64_t revision_ = 0;    // of the own entry
  uint64_t taken_beat_ = 0;  // the last one of this incarnation that was taken
  base::Time lease_until_{};
  std::optional<base::Time> anothers_since_;  // the name is another process's
  bool told_anothers_ = false;
  base::TimerId timer_ = base::TimerId::kNone;
  bool looked_ = false;  // at the own entry, since the last tick
};

}  // namespace weir::cluster
