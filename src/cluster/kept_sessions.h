// KeptSessions: the sessions of this node in the bucket, by the rules of Ownership. It adds what those leave to their
// caller: turns of one session are written one after the other, the newest only; what could not be written is tried
// again; whoever looks for a session waits until its node is known to be there or gone.
//
// A turn is answered once it is in the bucket. Where the bucket is away and this node has its lease all the same, or a
// session has no room in it, the turn is answered without: the session lives on here, is unkept, and is written once
// the bucket is back. Without the lease another node may have the session, and the turn fails; but for sessions that
// were opened since, of which the bucket has nothing.
//
// One thread. All that it is given outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "cluster/ownership.h"

namespace weir::cluster {

// Begins the ids of sessions that go where their client is. Those alone are let go for whoever asks.
inline constexpr std::string_view kMovedPrefix = "held-";

// The last write of a session by this node. Its one write more may have come through, whose answer was lost: the state
// that it has by now follows on both, as long as no record of another node was seen, which may have as many turns.
struct KeptTurn {
  uint64_t number = 0;
  bool maybe_one_more = false;
  bool fenced = false;  // this node was since, and has not read the record: another one may have the session
  void note_writer(bool own) { maybe_one_more = maybe_one_more && own; }
  bool may_be(uint64_t kept) const { return kept == number || (maybe_one_more && kept == number + 1); }
};

class KeptSessions {
 public:
  struct Limits {
    size_t waiting = 1024;                       // find()s at once
    uint64_t unkept_bytes = uint64_t(64) << 20;  // of states that wait for the bucket; half of them for kMovedPrefix
    base::Duration patience = std::chrono::seconds(15);  // of find(): more than a node may be silent
    base::Duration write_patience = std::chrono::seconds(3);
    base::Duration retry = std::chrono::milliseconds(200);
  };
  struct Place {
    enum class Where : uint8_t { kNowhere, kHere, kNode } where = Where::kNowhere;
    std::string state;  // kHere
    std::string node;   // kNode: its name; empty: any that can take this state
  };
  using Found = std::function<void(base::Result<Place>)>;
  // Whether this node can go on with a session. Errors: DATA_LOSS; UNIMPLEMENTED: another node may be able to.
  using CanTake = std::function<base::Status(const std::string& state)>;

  // For a session that goes where its client is (session/handover.h).
  struct Mover {
    // Asked with the state before it is given away. An error: for this client there is no such session.
    CanTake accept;
    // Asks the node that has the session to let it go. NOT_FOUND: there is no such session for this client.
    std::function<void(const std::string& owner, Ownership::Done then)> ask;
  };

  KeptSessions(base::Env& env, Membership& membership, Ownership& ownership, CanTake can_take, Limits limits)
      : env_(env), membership_(membership), ownership_(ownership), can_take_(std::move(can_take)), limits_(limits) {}
  ~KeptSessions();
  KeptSessions(const KeptSessions&) = delete;

  // `then`, kWhetherToAnswer: OK once it is kept, or is known not to be for now; ABORTED: another node has it.
  // UNAVAILABLE: it may have. kWhetherKept: OK once it is kept; else why not, or not yet.
  enum class Tells : uint8_t { kWhetherToAnswer, kWhetherKept };
  void save(const std::string& id, std::string state, Ownership::Done then, Tells tells = Tells::kWhetherToAnswer);
  void end(const std::string& id);
  // kHere: this node has taken it. `unreachable`: a node that did not answer, or "". With a Mover the session is taken
  // from a node that is there, too, once that has let it go: never kNode. Errors: UNAVAILABLE, RESOURCE_EXHAUSTED,
  // DATA_LOSS.
  void find(const std::string& id, std::string unreachable, Found then, Mover mover = {});
  // Another node may take it, once it is written. `then`, which may be null: OK when one may. UNAVAILABLE: it is not
  // known, or somebody here has taken it meanwhile.
  void release(const std::string& id, Ownership::Done then);
  // This node is going: others may take its sessions, but for those that are being written, and those that somebody
  // here `holds`.
  using Holds = std::function<bool(const std::string& id)>;
  void release_all(const Holds& holds = {});
  // Nothing is owned any more: this node was fenced.
  void drop_all();

  size_t owned() const { return ownership_.count(); }
  size_t unkept() const { return unkept_.size(); }
  uint64_t taken() const { return taken_; }         // sessions of other nodes
  uint64_t refused() const { return refused_; }     // records that cannot be read
  uint64_t lost_turns() const { return dropped_; }  // that another node's took the place of, or that had no room

 private:
  struct Writing {
    std::optional<std::string> next;  // came while the last was being written
    std::vector<std::pair<Ownership::Done, Tells>> waiting;
    bool ending = false;
    uint8_t claims = 0;
    base::Time since{};
  };
  struct Search {
    std::string id, unreachable;
    Found then;
    base::Time until;
    Mover mover = {};        // of move()
    std::string state = {};  // of the record, as it was seen last
    int asked = 0;
  };
  void write(const std::string& id, std::string state);
  void open(const std::string& id, const std::string& state);
  void write_owned(const std::string& id, const std::string& state);
  void written(const std::string& id, const std::string& state, const base::Status& status);
  void claim(const std::string& id, const std::string& state);
  void over(const std::string& id, const base::Status& answer, const base::Status& kept);
  bool may_go_on(const std::string& id) const;
  void set_unkept(const std::string& id, const std::string& state);
  void clear_unkept(const std::string& id);
  void erase(const std::string& id);
  void look(const std::string& id, const std::shared_ptr<Search>& search);
  void looked(const std::string& id, const std::shared_ptr<Search>& search, base::Result<Record> record);
  void look_later(const std::string& id, const std::shared_ptr<Search>& search, const std::string& why);
  void finish(const Search& search, base::Result<Place> place);
  void arm();
  void retry_all();
  void later(base::Duration after, std::function<void()> work);

  base::Env& env_;
  Membership& membership_;
  Ownership& ownership_;
  const CanTake can_take_;
  const Limits limits_;
  std::map<std::string, Writing> writing_;
  std::map<std::string, KeptTurn> turns_;                        // by session that this node has written
  std::map<std::string, std::string> unkept_;                    // states that are to be written
  std::set<std::string> unwritten_;                              // of unkept_, which no write has ever left for
  std::map<std::string, std::vector<Ownership::Done>> leaving_;  // to be released once they are written
  std::deque<std::string> to_erase_;                             // that could not be
  std::set<std::string> looked_up_;                              // of leaving_, whose record is being read
  uint64_t unkept_bytes_ = 0, unkept_moved_bytes_ = 0, taken_ = 0, refused_ = 0, dropped_ = 0;
  size_t searching_ = 0;
  base::TimerId timer_ = base::TimerId::kNone;
  std::map<uint64_t, base::TimerId> timers_;
  uint64_t last_timer_ = 0;
};

}  // namespace weir::cluster
