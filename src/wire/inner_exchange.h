// InnerExchange: an Exchange without a connection of its own. A request that the server makes, or has kept, is put to
// the Intake as if its client sent it now, so that the code which reads and answers it is the live one. A derived class
// says what becomes of the answer.
//
// One request. On its shard; destroyed at any time, also by answer_over(), after which its ExchangeListener has been
// closed.
#pragma once

#include "base/env.h"
#include "base/memory_ledger.h"
#include "wire/exchange.h"

namespace weir::wire {

class InnerExchange : public Exchange {
 public:
  // Once; request_ and content_ are set. The answer may come before this returns.
  void start();
  // As when its client leaves: answer_over() follows, of a broken answer.
  void abandon() { reset(Reset::kCancel); }

  // Exchange
  void head(Response response) final;
  void body(base::Bytes piece) final;
  void end(Fields trailers) final;
  void reset(Reset why) final;
  bool responding() const final { return headed_; }
  void consume(size_t) final {}
  base::Time now() const final { return env_.now(); }
  base::MemoryLedger* memory() final { return memory_; }

 protected:
  // All borrowed; `memory` may be null.
  InnerExchange(base::Env& env, Intake& intake, base::MemoryLedger* memory)
      : env_(env), intake_(intake), memory_(memory) {}
  // The derived class has called close().
  ~InnerExchange() override;

  // The answer, as it is made.
  virtual void take_head(const Response& response) = 0;
  virtual void take_body(base::Bytes piece) = 0;
  enum class Answered : uint8_t { kWhole, kBroken };
  // Called once, in a later turn than start(); may destroy this.
  virtual void answer_over(Answered how) = 0;
  // A turn that turn_later() has asked for, while the answer goes on.
  virtual void on_turn() {}
  // Called before the Intake forgets the request: codecs charge the bytes of live requests to its caller.
  virtual void charge_usage() {}

  void turn_later();
  // The answer ends here, as it is.
  void cut_short();
  // Ends as a codec does when its peer has gone. Afterwards answer_over() is not called.
  void close();
  bool open() const { return headed_ && !ended_ && !closed_; }

 private:
  void turn();

  base::Env& env_;
  Intake& intake_;
  base::MemoryLedger* const memory_;
  base::TimerId timer_ = base::TimerId::kNone;
  bool begun_ = false, headed_ = false, ended_ = false, broken_ = false, closed_ = false;
};

}  // namespace weir::wire
