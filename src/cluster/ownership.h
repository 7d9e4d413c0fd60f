// Ownership: which node answers for a session, by the session's record in the bucket. A record names its owner and the
// owner's incarnation; every write of it expects the revision that was read, so that of two nodes that take a session
// one has it. The session of a node that is gone is taken once that node's incarnation is fenced (membership.h).
//
// A node may answer for a session while it owns it and has its lease. An answer that must not be lost goes out when
// commit() has said OK: then it is in the record that the next owner reads.
//
// A node that drains lets its sessions go, by an incarnation of 0 in their records, which is over for everybody; those
// that it still has once its entry is erased can be taken, too.
//
// One thread. All that it is given outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "cluster/bucket.h"
#include "cluster/membership.h"

namespace weir::cluster {

// A session as the bucket has it:
//   "weir-session 1" LF "owner " id SP incarnation LF "turn " number LF [ "mac " 64HEXDIG LF ] LF bytes
// "mac" is the HMAC-SHA256 of the session's id, a LF and the record without this line, by a key of cluster.secret:
// where there is a secret, a record without it is refused, and so is that of another session.
struct Record {
  std::string owner;
  uint64_t incarnation = 0;
  uint64_t turn = 0;  // commits so far
  std::string state;  // the dialect's: what another node needs to go on
};
std::string write_record(const Record& record, std::string_view id = {}, std::string_view key = {});
// Errors: DATA_LOSS.
base::Result<Record> read_record(std::string_view text, std::string_view id = {}, std::string_view key = {});

class Ownership {
 public:
  static constexpr std::string_view kPrefix = "session.";  // of keys
  static constexpr size_t kLargestState = (4 << 20) + (12 << 10);

  // Errors of all: UNAVAILABLE (the bucket does not answer, or it is not known whether the owner is there: worth
  // another try).
  using Done = std::function<void(base::Status)>;
  using Taken = std::function<void(base::Result<Record>)>;
  // Asked about a session whose node is gone, before it is taken; its error is that of take().
  using Accept = std::function<base::Status(const Record&)>;

  // `key`: Secrets::entry_key.
  Ownership(Bucket& bucket, Membership& membership, size_t most, std::string key = {})
      : bucket_(bucket), membership_(membership), most_(most), key_(std::move(key)) {}

  // A new session of this node. ALREADY_EXISTS; RESOURCE_EXHAUSTED: `most` are owned.
  void open(const std::string& id, std::string state, Done then);
  // The session is this node's afterwards, with the state of its last commit. NOT_FOUND; FAILED_PRECONDITION: its owner
  // is there, and owner_of() names it.
  void take(const std::string& id, Taken then, Accept accept = {});
  // A turn has ended. ABORTED: another node owns the session.
  void commit(const std::string& id, std::string state, Done then);
  // Another node may take it at once.
  void release(const std::string& id, Done then);
  // It is erased everywhere.
  void close(const std::string& id, Done then);
  bool owns(const std::string& id) const { return owned_.contains(id); }
  // The turn of its record, as this node has written or read it last. The node owns the session.
  uint64_t turn_of(const std::string& id) const { return owned_.at(id).turn; }
  bool may_answer(const std::string& id) const { return owns(id) && membership_.has_lease(); }
  // As of the last take() that failed; empty: not known.
  std::string owner_of(const std::string& id) const;
  size_t count() const { return owned_.size(); }
  size_t releases() const { return released_.size(); }  // that are remembered; at most as many as may be owned
  std::vector<std::string> owned() const;
  // To be called when the node's incarnation is over.
  void drop_all() { owned_.clear(), uncertain_.clear(), released_.clear(), releases_in_order_.clear(); }

 private:
  struct Owned {
    uint64_t revision = 0, turn = 0;
    bool busy = false;  // a write is under way
  };
  static std::string key_of(const std::string& id) { return std::string(kPrefix) + id; }
  bool released_since(const std::string& id, uint64_t release) const {
    auto found = released_.find(id);
    return found != released_.end() && found->second > release;
  }
  Record record(std::string state, uint64_t turn) const;
  bool is_old(const std::string& id, uint64_t revision) const;
  void note_release(const std::string& id);
  void found(const std::string& id, base::Result<Bucket::KeyValue> entry, Taken then, const Accept& accept);
  void write_taken(const std::string& id, Record was, uint64_t revision, Taken then);
  void look_again(const std::string& id, uint64_t incarnation, std::string value, uint64_t turn, Done then);

  Bucket& bucket_;
  Membership& membership_;
  const size_t most_;
  const std::string key_;
  std::map<std::string, Owned> owned_;
  // Sessions with a write of which it was not known whether it was taken: the revision before that; at most most_.
  std::map<std::string, uint64_t> uncertain_;
  // And not taken since: a write of it may still come through. By when; what was asked before says nothing of it.
  std::map<std::string, uint64_t> released_;
  std::deque<std::pair<std::string, uint64_t>> releases_in_order_;  // the oldest are forgotten: at most most_
  uint64_t releases_ = 0;
  std::map<std::string, std::string> owners_;  // of others' sessions; at most most_
};

}  // namespace weir::cluster
