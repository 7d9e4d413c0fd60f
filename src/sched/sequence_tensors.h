// The tensors that a request of a sequence brings beside its client's own: controls and states. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/memory_ledger.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/sequence.h"
#include "msg/spec.h"

namespace weir::sched {

// One request's place in its sequence.
struct SequencePosition {
  bool start = false, end = false;
  msg::ParamValue id;
};

class SequenceTensors {
 public:
  // Both outlive this; they fit each other (with_sequences()).
  SequenceTensors(const msg::ModelSpec& whole, const msg::SequenceSpec& sequences);

  // INVALID_ARGUMENT for an id that none of the controls can hold.
  base::Status check_id(const msg::ParamValue& id) const;
  // Adds the inputs to the Call, and the states to the outputs that it asks for. `state` is what take() has left; empty
  // at the start of a sequence. check_id() was content with the id.
  void add(msg::Call& call, const SequencePosition& position, const std::vector<msg::Tensor>& state) const;
  // Takes those inputs and outputs away again.
  void remove(msg::Call& call) const;
  // Moves the states out of `outputs` into `state`, as copies that hold nothing else in memory. INTERNAL where one is
  // missing; RESOURCE_EXHAUSTED where `charge` has no room: `state` is then as it was.
  base::Status take(std::vector<msg::Tensor>& outputs, std::vector<msg::Tensor>& state,
                    base::MemoryCharge& charge) const;

 private:
  struct Flag {
    msg::SequenceSpec::Control::Kind kind;
    msg::Tensor off, on;
  };
  const msg::ModelSpec& whole_;
  const msg::SequenceSpec& sequences_;
  std::vector<Flag> flags_;
  std::vector<msg::Tensor> ids_;      // without data
  std::vector<msg::Tensor> initial_;  // by state
};

}  // namespace weir::sched
