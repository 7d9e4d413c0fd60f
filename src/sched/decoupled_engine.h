// DecoupledEngine: a model of tensors that answers a Call any number of times, none included: what Triton calls
// decoupled. The Inbox in front of it: sched/decoupled_inbox.h.
//
// Such a model answers at times of its own, so no lane waits in it: the Inbox asks for each answer when it is due, on
// the thread of the deadline timer. Calls run side by side.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "msg/tensor.h"

namespace weir::sched {

// The answers to one Call, in their order. Used by one thread at a time; an exception ends the Call.
class AnswerSeries {
 public:
  virtual ~AnswerSeries() = default;
  // How long after the last answer, or after the beginning, the next one is due. Nothing: there is none left.
  virtual std::optional<base::Duration> next_in() const = 0;
  // The next answer's tensors. It takes microseconds: the thread is every model's. A Status ends the Call.
  virtual base::Result<std::vector<msg::Tensor>> next() = 0;
};

class DecoupledEngine {
 public:
  virtual ~DecoupledEngine() = default;
  virtual const msg::ModelSpec& spec() const = 0;
  // Begins on a Call, whose inputs fit spec(), and keeps of it what it needs: the Call is not its own. Any shard's
  // thread, several at once. It takes microseconds.
  virtual base::Result<std::unique_ptr<AnswerSeries>> begin(const msg::Call& call) = 0;
};

}  // namespace weir::sched
