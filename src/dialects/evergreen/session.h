// Session: one Evergreen session, whatever carries it: the graph of nodes, and around it the parts that have one task
// each: what the client sends (SessionInput), references that are being loaded (PendingLoads), times to live of nodes
// (NodeTtls), actions (RunningActions), the end by time (SessionClock), and keeping it for other nodes (SessionKeeper).
//
// Owned by its carrier's ExchangeListener and used on its shard's thread. on_message(), on_end(), on_drain(), timers
// and the Events of models drive it; each of them ends in settle(), which is where actions that are over go and where
// the session's end is told. After Carrier::finish() the carrier tells it nothing more and destroys it in its own time.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "dialects/evergreen/graph/retired_graphs.h"
#include "dialects/evergreen/message.h"
#include "dialects/evergreen/node_ttls.h"
#include "dialects/evergreen/pending_loads.h"
#include "dialects/evergreen/running_actions.h"
#include "dialects/evergreen/session_clock.h"
#include "dialects/evergreen/session_input.h"
#include "dialects/evergreen/session_keeper.h"
#include "dialects/evergreen/state.h"
#include "dialects/evergreen/transcripts.h"
#include "wire/exchange.h"

namespace weir::evergreen {

// gRPC, a WebSocket or a streamed HTTP request.
class Carrier {
 public:
  virtual void send(const OutFragment& fragment) = 0;
  // How many bytes of data one fragment that is sent may have.
  virtual size_t longest_data() const { return std::numeric_limits<size_t>::max(); }
  // The client takes what is sent; if not, Session::on_drain() follows.
  virtual bool has_room() const = 0;
  // The session was full() when it was asked last, and takes messages again. Nothing may be read from inside this.
  virtual void on_room() = 0;
  // The session is over. Nothing is sent any more.
  virtual void finish(const base::Status& status) = 0;

 protected:
  ~Carrier() = default;
};

class Session final : TurnBudget::Waiter {
 public:
  Session(EvergreenState& state, wire::Exchange& exchange, Carrier& carrier);
  ~Session();
  Session(const Session&) = delete;

  void on_message(const base::Bytes& message);  // a serialized SessionMessage
  void on_end();                                // the client sends no more
  void on_drain();                              // the client has taken what was waiting for it
  // The carrier has gone: nothing is said any more. kLost: a session that is kept can be resumed.
  enum class Leaves : uint8_t { kLost, kForGood };
  void leave(Leaves how = Leaves::kLost);
  // Not now: the client has to read, or something here has to come or go, first. Carrier::on_room() follows.
  bool full() const;
  bool over() const { return over_; }
  // The server is going. What runs is finished, nothing else is begun; then the session ends with UNAVAILABLE. What
  // only waits for its client is not waited for longer than `grace`.
  void drain(base::Duration grace);
  bool draining() const { return draining_; }

  // The session ends with that; settle() says so.
  void abort(base::Status status);
  // After anything that did not come through the three on_…(): last in the calling function, which may be an action's
  // that is destroyed by it.
  void settle();
  // Data that is longer than the carrier takes goes in several fragments. Returns how many more than one.
  int64_t send(OutFragment&& fragment);
  // The client has more on its way than it takes, or there is no room for more: no more output now.
  bool congested() const;
  // The same, for an action that pauses when it is true: it is run again when it is not.
  bool pauses_output();
  // Nothing can go on because of what the client has not sent: fills in what.
  bool stuck(std::string& missing) const;
  // An action on a model is a request of its own, save the first: with that the session was let in. Errors: those of
  // wire::admit_another().
  base::Status admit_action();

  EvergreenState& state() { return state_; }
  wire::Exchange& exchange() { return exchange_; }
  NodeGraph& graph() { return graph_.nodes(); }
  NodeTtls& ttls() { return ttls_; }
  RunningActions& actions() { return actions_; }
  SessionKeeper& keeper() { return keeper_; }
  SessionClock& clock() { return clock_; }
  Transcripts& transcripts() { return transcripts_; }

 private:
  struct AtWork;
  void on_turn() override;
  void go_on();
  void end_if_nothing_runs();
  SessionKeeper::Then fate() const;
  void finish();

  EvergreenState& state_;
  wire::Exchange& exchange_;
  Carrier& carrier_;
  OwnedGraph graph_;
  NodeTtls ttls_;
  PendingLoads loads_;
  Transcripts transcripts_;
  RunningActions actions_;
  SessionInput input_;
  bool ended_ = false;  // the client says no more
  bool over_ = false, finished_ = false, settling_ = false, left_ = false, draining_ = false;
  std::optional<Leaves> leaves_;  // where that is what has ended it
  bool thrown_ = false;           // something has, outside of AtWork: see wire::end_thrown()
  base::Status status_;
  bool admitted_ = false;  // an action, with the session
  mutable bool asked_while_full_ = false;
  bool paused_ = false;  // an output, until the session is no longer short of room
  SessionClock clock_;
  SessionKeeper keeper_;
};

}  // namespace weir::evergreen
