// DecoupledEngine: a model of tensors that answers a Call any number of times, none included: what Triton calls
// decoupled. The Inbox in front of it: sched/decoupled_inbox.h.
//
// Such a model answers at times of its own, so no lane waits in it: the Inbox asks for each answer when it is due, or
// when the engine says that it is there, on the thread of the deadline timer. Calls run side by side.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::sched {

// The answers to one Call, in their order. Used by one thread at a time; an exception ends the Call.
class AnswerSeries {
 public:
  // The Call is over, or its client has left.
  virtual ~AnswerSeries() = default;
  // The next answer is not there yet, and nobody knows when it will be: the engine tells.
  static constexpr base::Duration kNotYet = base::Duration::max();
  // How long after the last answer, or after the beginning, the next one is due. Nothing: there is none left.
  virtual std::optional<base::Duration> next_in() const = 0;
  // The next answer: Outputs, `final` if the end comes with them and not behind them; or Failed in place of one, which
  // ends the Call unless it takes errors. It takes microseconds: the thread is every model's. A Status ends the Call.
  virtual base::Result<msg::Event> next() = 0;
  // The peer has taken nearly all that next() has given. Each next() says the same of the answers before it.
  virtual void note_room() {}
  // The model works on the Call, or is done with it: it waits no longer, and no queue timeout ends it.
  virtual bool begun() const { return true; }
};

class DecoupledEngine {
 public:
  virtual ~DecoupledEngine() = default;
  virtual const msg::ModelSpec& spec() const = 0;
  // Its instances, each of which begins the Calls that it is given; begin() of the whole chooses one.
  virtual std::vector<DecoupledEngine*> instances() { return {this}; }
  // Begins on a Call, whose inputs fit spec(), and keeps of it what it needs: the Call is not its own. Where Calls wait
  // for each other, the level of priority decides whose turn it is. Any shard's thread, several at once. It takes
  // microseconds.
  virtual base::Result<std::unique_ptr<AnswerSeries>> begin(const msg::Call& call) = 0;
  // Called once, before any begin() but those of a warm-up, which looks again and again. `wake` is to be called, from
  // any thread without a lock that an AnswerSeries takes, when one whose next_in() was kNotYet has got an answer, or
  // its end. It may be called until the engine is destroyed.
  virtual void on_answers(std::function<void()> /*wake*/) {}
  // Once a part of it has broken: whether Calls still find another part. Any thread.
  virtual bool serves_on() const { return false; }
};

}  // namespace weir::sched
