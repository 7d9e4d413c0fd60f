// SequenceSpec: how a model takes part in sequences of requests that belong together (Triton's sequence_batching):
// which of its inputs are told where in a sequence a request stands, and which tensors are kept from one request to the
// next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "msg/tensor.h"

namespace weir::msg {

struct SequenceSpec {
  enum class Strategy : uint8_t { kDirect, kOldest };

  // An input that the server fills. kCorrelationId: the sequence's id; the others: `on` or `off`.
  struct Control {
    enum class Kind : uint8_t { kStart, kReady, kEnd, kCorrelationId };
    std::string input;
    Kind kind = Kind::kStart;
    DType dtype = DType::kInt32;  // of flags INT32, FP32 or BOOL; of ids an integer of 32 or 64 bits, or BYTES
    double off = 0, on = 1;
  };
  // This is a state when a sequence starts.
  struct Initial {
    std::string name;
    DType dtype = DType::kInvalid;
    Shape shape;  // without the batch dimension; -1 counts as 1
    bool zero = true;
    std::string file;  // in the model's folder initial_state, where it is not zero
    base::Bytes data;  // of one row
  };
  // An output that becomes an input of the sequence's next request. Clients see neither.
  struct State {
    std::string input, output;
    DType dtype = DType::kInvalid;
    Shape shape;  // without the batch dimension; -1 = any
    std::optional<Initial> initial;
    bool same_buffer = false, growable = false;  // echoed; states are copied, and as large as the model makes them
  };

  Strategy strategy = Strategy::kDirect;
  base::Duration idle{1'000'000'000};  // a sequence without requests for so long ends: max_sequence_idle_microseconds
  std::vector<Control> controls;
  std::vector<State> states;
  uint32_t max_candidates = 0;      // of kOldest: sequences at once; 0 = the default of sched/sequence_inbox.h
  std::vector<uint32_t> preferred;  // of kOldest, as BatchPolicy has it
  base::Duration max_delay{0};      // as BatchPolicy has it
  bool preserve_ordering = false;   // of kOldest
  float minimum_utilization = 0;    // of kDirect; echoed
  BatchPolicy queue;                // how many sequences wait for a slot, and how long their requests do
};

// Whether a request says so of itself: sequence_start, sequence_end.
inline bool is_set(const Parameters& parameters, std::string_view name) {
  const auto* value = find(parameters, name);
  const auto* flag = value ? std::get_if<bool>(value) : nullptr;
  return flag && *flag;
}

// A request that ends so has not been seen by the model, or its outcome is gone: what comes behind it in its sequence
// would run on a state that lacks it, and is refused.
inline bool ends_sequence(base::Code code) {
  return code == base::Code::kCancelled || code == base::Code::kDeadlineExceeded ||
         code == base::Code::kResourceExhausted || code == base::Code::kUnavailable;
}

// An Inbox that keeps sequences says how. It stands in front of all other Inboxes of its model.
class KeepsSequences {
 public:
  virtual const SequenceSpec& sequences() const = 0;

 protected:
  ~KeepsSequences() = default;
};

}  // namespace weir::msg
