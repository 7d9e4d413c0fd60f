// Fencing: how a node makes sure that another one owns nothing any more: it writes "fenced" in the place of its entry,
// and expects the revision that it has seen unchanged for `gone` (membership.h says why that is enough). Pure.
//
// A node that goes on while the bucket is away asks those that its entry names not to (promises.h). Whoever is not
// named there waits for `stranger`, as everybody does where the entry is not there any more, or is an earlier
// incarnation's. Therefore the others fence a silent node while its entry is there (`fence_after`), asked or not.
//
// A write whose answer was lost may come late. One that expects a revision cannot once another one is there; one that
// expects no entry can whenever there is none, and its mark then says nothing of later incarnations.
//
// One thread. All that it is given outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/env.h"
#include "cluster/bucket.h"
#include "cluster/node_table.h"
#include "cluster/rules.h"

namespace weir::cluster {

class Fencing {
 public:
  using Done = std::function<void(base::Status)>;

  // `self`: this node; `reached`: whether it reaches the bucket.
  Fencing(base::Env& env, Bucket& bucket, const Rules& rules, std::string entry_key, const Node& self, NodeTable& table,
          std::function<bool()> reached)
      : env_(env),
        bucket_(bucket),
        rules_(rules),
        entry_key_(std::move(entry_key)),
        self_(self),
        table_(table),
        reached_(std::move(reached)) {}
  Fencing(const Fencing&) = delete;

  // Whether that incarnation owns nothing any more: writes "fenced" where it has been silent long enough. OK: it does
  // not. FAILED_PRECONDITION: it is there. UNAVAILABLE: not known now, worth another try.
  void fence(const std::string& id, uint64_t incarnation, Done then);
  // Fences those that have been silent for `fence_after`, if it is this node's turn.
  void fence_silent();
  // Forgets the nodes that the table does not know any more.
  void forget();

  // Promises another node that this one fences nobody before the lease is over that it is about to renew, and returns
  // this node's incarnation. FAILED_PRECONDITION: that would be a lie.
  base::Result<uint64_t> promise(const std::string& id, uint64_t incarnation) const;

 private:
  // Writes of "fenced" for one node that may yet come.
  struct Late {
    size_t under_way = 0;   // not answered
    uint64_t revision = 0;  // the latest one that a write expects whose answer was lost
    uint64_t absent = 0;    // the latest incarnation that such a write marks, where there is no entry
  };
  void read(const std::string& id, uint64_t incarnation, base::Result<Bucket::KeyValue> entry, const Done& then);
  void write(const std::string& id, uint64_t incarnation, Done then);
  static bool has_entry_of(const NodeTable::Seen& seen, uint64_t incarnation) {
    return seen.there && seen.node.incarnation >= incarnation;
  }
  bool may_fence(const NodeTable::Seen& seen, uint64_t incarnation) const;
  static bool may_come(const Late& late, const NodeTable::Seen& seen, uint64_t incarnation);

  base::Env& env_;
  Bucket& bucket_;
  const Rules& rules_;
  const std::string entry_key_;
  const Node& self_;
  NodeTable& table_;
  const std::function<bool()> reached_;
  std::map<std::string, Late> late_;  // by id; forgotten with the node
};

}  // namespace weir::cluster
