// SessionKeeper: keeps its session for the other nodes of a cluster (session/handover.h), once the client has asked for
// it by KEEP or RESUME: what is complete in its graph is kept after each action, and when the client leaves.
//
//   KEEP    nothing -> keeping (the first save is under way) -> held
//   RESUME  nothing -> taking (it is asked of whoever has it) -> reading (into the graph, turn by turn) -> held
//
// A session that the client ends, that breaks a rule, or whose time is over, ends everywhere. One whose client has
// gone, or whose node is going, can be resumed. Without its claim (Handover::epoch()) a node says nothing more in the
// session: it ends with UNAVAILABLE.
//
// A save writes the whole state, so that saves of a long one are further apart: a session writes a MiB in a second, and
// ten times in a second at most, but for those that KEEP waits for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"
#include "dialects/evergreen/graph/node.h"
#include "dialects/evergreen/graph_state.h"

namespace weir::session {
class Reservation;
}

namespace weir::evergreen {

struct EvergreenState;
class Session;

class SessionKeeper {
 public:
  // The session's state(), graph() and ttls() are there already. It outlives this.
  explicit SessionKeeper(Session& session);
  ~SessionKeeper();
  SessionKeeper(const SessionKeeper&) = delete;

  // KEEP and RESUME begin; the session's actions run again when there is news. Errors: UNIMPLEMENTED (this node is
  // alone), FAILED_PRECONDITION (RESUME is not the first), UNAVAILABLE, RESOURCE_EXHAUSTED.
  // keep() gives the number of the save that will have all that is complete now, for kept(): nothing while that is not
  // over, else how it went.
  base::Result<uint64_t> keep();
  std::optional<base::Status> kept(uint64_t save) const;
  base::Status resume(base::SessionId id);
  const base::Status& resumed() const { return outcome_; }  // when it is no longer resuming()
  // RESUME has said all: what is there now is what is kept.
  void note_resumed() { due_ = changed_ = false; }
  // The client's messages have to wait.
  bool resuming() const { return phase_ == Phase::kTaking || phase_ == Phase::kReading; }

  base::SessionId id() const { return id_; }
  // An output of the first KEEP, or of RESUME: it is this connection's, and not kept.
  void leave_out(const Node& node) {
    if (phase_ == Phase::kNothing && left_out_.size() < kMostLeftOut) left_out_.emplace(node.id());
  }
  bool leaves_out(const Node& node) const { return left_out_.contains(node.id()); }

  // Another node may have the session: this one must not answer for it. True once means true from then on.
  bool lost();
  void note_action_over() { due_ = changed_ = true; }
  // The client has sent a fragment, or begun an action.
  void note_change() { changed_ = true; }
  // Reads on, or saves what is due. True: the session has more to do. Ends the session where it is lost().
  bool go_on();
  bool waits_for_turn() const { return phase_ == Phase::kReading || may_save(); }
  // The session is over. kGone: everywhere. kSaved: whoever comes next finds it as it is now; kAsItWasKept: as it was
  // saved last, for the graph may be of no further use.
  enum class Then : uint8_t { kGone, kSaved, kAsItWasKept };
  void end(Then then);

 private:
  static constexpr size_t kMostLeftOut = 64;  // so many tries of RESUME a connection has room for

  enum class Phase : uint8_t { kNothing, kKeeping, kTaking, kReading, kHeld };
  using Taken = base::Result<std::optional<std::string>>;
  base::Status enlist();
  void hold();
  void taken(Taken state);
  bool read_on();
  void refuse(base::Status why);
  bool has() const { return phase_ == Phase::kKeeping || phase_ == Phase::kReading || phase_ == Phase::kHeld; }
  base::Time next_save() const;
  bool may_save() const;
  void save();
  void saved(uint64_t save, base::Status status);
  void forget();
  void wake_at(base::Time when);
  template <class Work>
  static void with(EvergreenState& state, uint64_t number, Work work);

  Session& session_;
  EvergreenState& state_;
  Phase phase_ = Phase::kNothing;
  base::Status outcome_;
  base::SessionId id_;
  uint64_t number_ = 0;                 // in EvergreenState::keepers; another one after each KEEP or RESUME
  uint64_t epoch_ = 0;                  // of the node's claim when it was held, or before it was taken
  bool due_ = false, awaited_ = false;  // awaited: KEEP waits for it
  bool lost_ = false;
  bool changed_ = false;           // since what is kept was written, or read
  uint64_t begun_ = 0, over_ = 0;  // saves
  base::Status last_save_;
  base::Time paced_{};       // not before
  base::Time last_begun_{};  // when the last save began, or what was kept was read
  std::set<std::string, std::less<>> left_out_;
  std::optional<GraphStateReader> reader_;
  size_t times_set_ = 0;                           // of reader_'s
  std::shared_ptr<session::Reservation> reading_;  // the charge for what is taken, and for what reader_ has
  base::TimerId timer_ = base::TimerId::kNone;
};

}  // namespace weir::evergreen
