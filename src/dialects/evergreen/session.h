// Session: one Evergreen session, whatever carries it: the graph of nodes, the actions that run, and what they say.
//
// Owned by its carrier's ExchangeListener and used on its shard's thread. on_message(), on_end(), on_drain() and the
// Events of models drive it; each of them ends in settle(), which is where actions that are over go and where the
// session's last word is said. After finish() the carrier tells it nothing more and destroys it in its own time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "dialects/evergreen/graph/node_graph.h"
#include "dialects/evergreen/message.h"
#include "dialects/evergreen/reference.h"
#include "dialects/evergreen/state.h"
#include "msg/spec.h"
#include "wire/exchange.h"

namespace weir::evergreen {

class Action;

// gRPC, a WebSocket or a streamed HTTP request.
class Carrier {
 public:
  virtual void send(const OutFragment& fragment) = 0;
  // The last word.
  virtual void finish(const base::Status& status) = 0;

 protected:
  ~Carrier() = default;
};

// Text that this session has had in front of a model, and the tokens that it was: a prompt that begins with the same
// text begins with the same tokens, also where the tokenizer would cut an answer otherwise than the model wrote it.
struct Transcript {
  std::shared_ptr<const msg::TextSpec> model;
  std::string text;
  std::vector<uint32_t> ids;
};
using Transcripts = std::deque<std::shared_ptr<const Transcript>>;  // workers read them while the session goes on

class Session final : MessageSink, Load::Listener, TurnBudget::Waiter {
 public:
  Session(EvergreenState& state, wire::Exchange& exchange, Carrier& carrier);
  ~Session();
  Session(const Session&) = delete;

  void on_message(const base::Bytes& message);  // a serialized SessionMessage
  void on_end();                                // the client sends no more
  void on_drain();                              // the client has taken what was waiting for it
  // The session ends with that; settle() says so.
  void abort(base::Status status);
  // The carrier has gone: nothing is said any more.
  void leave();
  // Not now: the client has to read, or something here has to come or go, first.
  bool full() const;
  bool over() const { return over_; }
  // The server is going. What runs is finished, nothing else is begun; then the session ends with UNAVAILABLE. What
  // only waits for its client is not waited for longer than `grace`.
  void drain(base::Duration grace);
  bool draining() const { return draining_; }

  // The rest is for actions.
  EvergreenState& state() { return state_; }
  wire::Exchange& exchange() { return exchange_; }
  NodeGraph& graph() { return graph_; }
  // The next fragment of an action's node: into the graph and to the client.
  base::Status emit(Node& node, OutFragment&& fragment);
  // No more comes of an open node: the client sees it end, readers here hear `why`.
  base::Status break_off(Node& node, const base::Status& why);
  // The client has more on its way than it takes, or there is no room for more: no more output now; the session runs
  // its actions again.
  bool congested() const { return !exchange_.has_room() || crowded(); }
  // After anything that did not come through the four on_…(): last in the calling function, which may be an action's
  // that is destroyed by it.
  void settle();
  // Models work on as many actions as they may; the session runs its actions again when one of them has ended.
  bool busy() const { return working_ >= state_.options.max_actions; }
  void on_work_begun() { ++working_; }
  void on_work_ended();
  void on_action_over() { sweep_ = true; }
  // Counts the time to live of that node anew: the node may have become an open one, or has ended.
  void look_at_ttl(const Node& node);
  // The running action whose output that is, or null.
  Action* maker(const Node& node);
  void set_ttl(std::string_view node, base::Duration ttl);
  void remember(Transcript transcript);
  const Transcripts& transcripts() const { return transcripts_; }

 private:
  base::Status on_fragment(Fragment& fragment, std::string_view reference) override;
  base::Status on_action(ActionRequest&& request) override;
  bool holds() const override { return !held_.empty(); }
  struct Ttl {
    base::TimerId timer = base::TimerId::kNone;
    bool makes_room = false;  // an open node stays when its time is over
  };
  base::Status begin_load(Node& node, int64_t seq, std::string_view uri);
  bool on_growth() override;
  void on_turn() override;
  void on_loaded(Load& load, base::Result<base::Bytes> data) override;
  void take(const base::Bytes& message, size_t at);
  void take(Load& load, base::Result<base::Bytes> data);
  bool go_on();
  bool room_may_come() const { return ttls_with_room_ > 0; }
  enum class Until : uint8_t { kRoom, kModel, kLoads, kNextTurn };
  base::Status hold(Until until);
  bool held_back() const;
  bool crowded() const;
  void set_alarm();
  void look_at_clock();
  void work();
  void begin_next();
  void wait_for_turn();
  void end_if_nothing_runs();
  void finish();
  void expire(const std::string& node);
  bool stuck(std::string& missing) const;

  EvergreenState& state_;
  wire::Exchange& exchange_;
  Carrier& carrier_;
  session::Reservation reservation_;
  NodeGraph graph_;
  std::vector<std::unique_ptr<Action>> actions_;  // in order of arrival
  std::vector<std::unique_ptr<Load>> loads_;
  Transcripts transcripts_;
  std::map<std::string, Ttl, std::less<>> ttls_;
  size_t ttls_with_room_ = 0;  // of them
  bool resume_ = false;        // outputs that paused for want of room, or for the client, may go on
  const base::Bytes* reading_ = nullptr;
  base::Bytes held_;  // a message that waits, and flow control with it
  Until held_until_ = Until::kRoom;
  size_t held_at_ = 0;      // where to go on in it
  uint64_t held_size_ = 0;  // of the graph then
  uint32_t working_ = 0;    // actions that models work on
  bool turn_came_ = false;  // for actions that wait to be among those
  bool sweep_ = false;      // an action is over
  base::Time born_, used_;
  base::TimerId alarm_ = base::TimerId::kNone, grace_ = base::TimerId::kNone;
  bool ended_ = false, over_ = false, finished_ = false, settling_ = false, left_ = false;
  bool draining_ = false, waits_no_more_ = false;
  base::Status status_;
};

}  // namespace weir::evergreen
