// RoutedCall: a call for a session that is not here, where this node is one of a cluster: finds the node that has it
// and hands the call on, or takes the session over from a node that is gone and then runs the call here. The client
// waits meanwhile, also where the node is lost in the middle of a Generate: that goes on here, behind the tokens that
// the client has. It lives in SalienceState::routed. On the shard.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "dialects/salience/turn_request.h"
#include "session/other_nodes.h"
#include "session/session_table.h"
#include "wire/relay.h"
#include "wire/rpc.h"

namespace weir::salience {

struct SalienceState;

// A call that is to be handed on.
struct Routable {
  std::string_view method;  // "Generate"; a literal
  base::Bytes message;
  base::SessionId session;
  session::Tenant tenant{};
  // Runs the call here, once the session is; NOT_FOUND is an answer then. Answers of other nodes pass it by.
  std::function<void(wire::Rpc&, base::Bytes)> run;
  // Goes on here with a Generate of which the client has had that much; null: that cannot be.
  std::function<void(wire::Rpc&, base::Bytes, Relayed)> resume;
  // Where no node has the session.
  std::function<void(wire::Rpc&)> nowhere;
  // A call without a session goes to any node that serves this.
  std::string model = {};
};

class RoutedCall final : private wire::Relay::Receiver {
 public:
  // Finds the session's node. The rpc gets a listener; it may be over when this returns.
  static void begin(SalienceState& state, wire::Rpc& rpc, Routable what);
  // To that node, without a session; to another one where that cannot be reached.
  static void begin_at(SalienceState& state, wire::Rpc& rpc, Routable what, const session::OtherNodes::Place& place);
  // Whether the call came from another node, which is told where the session is.
  static bool was_relayed(wire::Rpc& rpc) { return rpc.metadata().has(wire::kRelayed); }

  RoutedCall(SalienceState& state, wire::Rpc& rpc, Routable what, uint64_t number)
      : salience_(state), rpc_(rpc), what_(std::move(what)), number_(number) {}

 private:
  using Place = session::OtherNodes::Place;
  class Listener;

  static RoutedCall& make(SalienceState& state, wire::Rpc& rpc, Routable what);
  void find(std::string unreachable);
  void try_another();
  void found(base::Result<Place> place);
  void relay(const Place& place);
  void adopt(const std::string& state);
  void run_here();
  void note_event(const base::Bytes& message);
  bool can_resume(const session::SessionState& state) const;
  base::Status node_lost() const;
  void finish(const base::Status& status);

  void on_message(base::Bytes message) override;
  bool full() const override;
  void on_over(base::Status status, wire::Relay::Source source) override;

  SalienceState& salience_;
  wire::Rpc& rpc_;
  Routable what_;
  const uint64_t number_;
  std::unique_ptr<wire::Relay::Call> call_;
  std::string node_;                // where it is
  std::vector<std::string> tried_;  // of a call without a session: nodes that cannot be reached
  int hops_ = 0;
  bool answered_ = false;
  Relayed relayed_;
};

}  // namespace weir::salience
