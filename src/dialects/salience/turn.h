// Turn: one Generate. It borrows the session, submits the Call, passes its events on, and gives the session back with
// what came of it. It lives in SalienceState::turns until then, also when its client has left.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "bus/call_handle.h"
#include "dialects/salience/reply.h"
#include "dialects/salience/turn_request.h"
#include "msg/call.h"
#include "session/sessions.h"
#include "text/completion.h"
#include "wire/rpc.h"

namespace weir::salience {

struct SalienceState;
class Turn;

class Generate final : public wire::RpcMethod {
 public:
  explicit Generate(SalienceState& state) : salience_(state) {}
  void call(wire::Rpc& rpc, base::Bytes message) override;
  // kHere: the session is this node's, if it is anybody's.
  enum class Session : uint8_t { kAnywhere, kHere };
  static void begin(SalienceState& state, wire::Rpc& rpc, base::Bytes message, Session where, Relayed relayed = {});

 private:
  SalienceState& salience_;
};

// Tells a Turn that its client reads again, or has left.
class Listener final : public wire::RpcListener {
 public:
  void on_message(wire::Rpc&, base::Bytes) override {}
  void on_drain(wire::Rpc&) override;
  void on_close(wire::Rpc&) override;
  Turn* turn = nullptr;  // null once it is over
};

class Turn final : public session::Borrower, public msg::Sink {
 public:
  // `routable`: the request's message, for another node that may have the session; empty: none has.
  Turn(SalienceState& state, wire::Rpc& rpc, Listener& listener, TurnRequest&& request, base::Bytes routable);
  Turn(const Turn&) = delete;

  // The Turn may be over, and gone, when this returns. The same holds for what follows.
  void begin(session::Tenant tenant, std::list<Turn>::iterator self);
  void left();  // the client has
  void drained() { call_.repay(); }

  // session::Borrower
  void granted(base::Result<session::Lease> lease) override;
  void revoked() override;
  // msg::Sink
  void on(msg::Call& call, msg::Event&& event) override;

 private:
  base::Status start();
  base::Status submit(bus::Served& served);
  void watch_for_stops(const msg::ModelSpec& spec);
  void end_where_it_had_ended(const msg::TextSpec& spec);
  void pass_on(const msg::Token& token);
  void route();
  void give_back(session::Outcome&& outcome, std::function<void()> then);
  session::Outcome appended(msg::Generation& generation) const;
  void finished(msg::Call& call, msg::Event&& event);
  void done(Reason reason, uint32_t prompt_tokens);
  void unchanged(base::Status status);
  void end(const base::Status& status);

  SalienceState& salience_;
  wire::Rpc* rpc_;  // null once the client has left
  Listener* listener_;
  TurnRequest request_;
  base::Bytes routable_;
  session::Tenant tenant_{};
  std::list<Turn>::iterator self_;
  bool closed_ = false;  // the session, under us
  std::optional<session::Lease> lease_;
  bus::CallHandle call_;
  std::vector<uint32_t> generated_;             // and passed on
  std::shared_ptr<const msg::TextSpec> spec_;   // whose tokenizer completion_ reads by
  std::optional<text::Completion> completion_;  // where there are stop strings
  bool stopped_ = false;                        // by one of them
  std::optional<Reason> had_ended_;             // with the last token that another node has generated
  size_t relayed_ = 0;                          // tokens that it has generated
};

}  // namespace weir::salience
