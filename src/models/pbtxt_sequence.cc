#include "models/pbtxt_sequence.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <string_view>

#include "sched/sequence_inbox.h"

namespace weir::models {

msg::DType dtype_of(inference::DataType type) {
  switch (type) {
    case inference::TYPE_BOOL: return msg::DType::kBool;
    case inference::TYPE_UINT8: return msg::DType::kUint8;
    case inference::TYPE_UINT16: return msg::DType::kUint16;
    case inference::TYPE_UINT32: return msg::DType::kUint32;
    case inference::TYPE_UINT64: return msg::DType::kUint64;
    case inference::TYPE_INT8: return msg::DType::kInt8;
    case inference::TYPE_INT16: return msg::DType::kInt16;
    case inference::TYPE_INT32: return msg::DType::kInt32;
    case inference::TYPE_INT64: return msg::DType::kInt64;
    case inference::TYPE_FP16: return msg::DType::kFp16;
    case inference::TYPE_FP32: return msg::DType::kFp32;
    case inference::TYPE_FP64: return msg::DType::kFp64;
    case inference::TYPE_STRING: return msg::DType::kBytes;
    case inference::TYPE_BF16: return msg::DType::kBf16;
    default: return msg::DType::kInvalid;
  }
}

namespace {

using Triton = inference::ModelSequenceBatching;
using SequenceControl = msg::SequenceSpec::Control;

constexpr uint64_t kLongestIdle = 86'400'000'000;  // a day in µs
constexpr uint64_t kLongestDelay = 3'600'000'000;  // an hour in µs
constexpr int kMostStates = 64;

base::Status unfit(const std::string& text) { return base::invalid("sequence_batching: " + text); }

base::Status read_flag(const Triton::Control& in, SequenceControl& out) {
  const std::string of = "control input '" + out.input + "'";
  if (in.int32_false_true_size() + in.fp32_false_true_size() + in.bool_false_true_size() != 2)
    return unfit(of + " needs two values in one of int32_false_true, fp32_false_true and bool_false_true");
  if (in.int32_false_true_size() == 2) {
    out.dtype = msg::DType::kInt32, out.off = in.int32_false_true(0), out.on = in.int32_false_true(1);
  } else if (in.fp32_false_true_size() == 2) {
    out.dtype = msg::DType::kFp32, out.off = double(in.fp32_false_true(0)), out.on = double(in.fp32_false_true(1));
  } else if (in.bool_false_true_size() == 2) {
    out.dtype = msg::DType::kBool, out.off = in.bool_false_true(0), out.on = in.bool_false_true(1);
  } else {
    return unfit(of + " has values of two types");
  }
  return {};
}

base::Status read_id(const Triton::Control& in, SequenceControl& out) {
  using msg::DType;
  constexpr DType kTaken[] = {DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64, DType::kBytes};
  out.dtype = dtype_of(in.data_type());
  if (std::find(std::begin(kTaken), std::end(kTaken), out.dtype) != std::end(kTaken)) return {};
  return unfit("the correlation id '" + out.input +
               "' needs data_type TYPE_INT32, TYPE_UINT32, TYPE_INT64, TYPE_UINT64 or TYPE_STRING");
}

base::Status read_controls(const Triton& in, msg::SequenceSpec& out) {
  std::set<SequenceControl::Kind> seen;
  for (const auto& input : in.control_input()) {
    if (input.name().empty()) return unfit("a control input without a name");
    if (input.control_size() != 1) return unfit("control input '" + input.name() + "' needs one control");
    const auto& said = input.control(0);
    SequenceControl control{.input = input.name()};
    switch (said.kind()) {
      case Triton::Control::CONTROL_SEQUENCE_READY: control.kind = SequenceControl::Kind::kReady; break;
      case Triton::Control::CONTROL_SEQUENCE_END: control.kind = SequenceControl::Kind::kEnd; break;
      case Triton::Control::CONTROL_SEQUENCE_CORRID: control.kind = SequenceControl::Kind::kCorrelationId; break;
      default: break;
    }
    const bool is_id = control.kind == SequenceControl::Kind::kCorrelationId;
    if (auto s = is_id ? read_id(said, control) : read_flag(said, control); !s.ok()) return s;
    if (!seen.insert(control.kind).second)
      return unfit("two controls of kind " + Triton::Control::Kind_Name(said.kind()));
    out.controls.push_back(std::move(control));
  }
  return {};
}

template <class Dims>
base::Status read_shape(const Dims& dims, const std::string& of, msg::Shape& out) {
  for (int64_t d : dims) {
    if (d < -1) return unfit(of + ": a dimension of " + std::to_string(d));
    if (!out.push(d)) return unfit(of + " has more than 16 dimensions");
  }
  return {};
}

base::Status read_initial(const Triton::InitialState& in, const std::string& of, msg::SequenceSpec::State& state) {
  auto& out = *(state.initial = msg::SequenceSpec::Initial{});
  out.name = in.name();
  out.dtype = dtype_of(in.data_type());
  if (out.dtype != state.dtype) return unfit(of + " and its initial_state differ in data_type");
  out.zero = in.state_data_case() != Triton::InitialState::kDataFile;
  out.file = in.data_file();
  return read_shape(in.dims(), of, out.shape);
}

base::Status read_states(const Triton& in, msg::SequenceSpec& out) {
  if (in.state_size() > kMostStates) return unfit("more than " + std::to_string(kMostStates) + " states");
  for (const auto& said : in.state()) {
    auto& state = out.states.emplace_back();
    state.input = said.input_name(), state.output = said.output_name();
    const std::string of = "state '" + state.input + "'";
    if (state.input.empty() || state.output.empty()) return unfit("a state needs input_name and output_name");
    state.dtype = dtype_of(said.data_type());
    if (state.dtype == msg::DType::kInvalid) return unfit(of + " has no data_type");
    state.same_buffer = said.use_same_buffer_for_input_output();
    state.growable = said.use_growable_memory();
    if (auto s = read_shape(said.dims(), of, state.shape); !s.ok()) return s;
    if (said.initial_state_size() > 1) return unfit(of + " has more than one initial_state");
    if (said.initial_state_size() == 1)
      if (auto s = read_initial(said.initial_state(0), of, state); !s.ok()) return s;
  }
  return {};
}

base::Status read_strategy(const Triton& in, msg::SequenceSpec& out) {
  const uint64_t delay =
      in.has_oldest() ? in.oldest().max_queue_delay_microseconds() : in.direct().max_queue_delay_microseconds();
  if (delay > kLongestDelay) return unfit("max_queue_delay_microseconds of more than an hour");
  out.max_delay = std::chrono::microseconds(delay);
  out.minimum_utilization = in.direct().minimum_slot_utilization();
  if (!in.has_oldest()) return {};
  out.strategy = msg::SequenceSpec::Strategy::kOldest;
  const int64_t candidates = in.oldest().max_candidate_sequences();
  if (candidates < 0 || candidates > sched::kMostCandidates)
    return unfit("max_candidate_sequences of " + std::to_string(candidates) + ": 1 to " +
                 std::to_string(sched::kMostCandidates) + " are possible, and 0 is " +
                 std::to_string(sched::kDefaultCandidates));
  out.max_candidates = uint32_t(candidates);
  for (int32_t size : in.oldest().preferred_batch_size()) {
    if (size <= 0) return unfit("a preferred batch of " + std::to_string(size));
    out.preferred.push_back(uint32_t(size));
  }
  std::sort(out.preferred.begin(), out.preferred.end());
  out.preserve_ordering = in.oldest().preserve_ordering();
  return {};
}

std::string_view word_of(SequenceControl::Kind kind) {
  switch (kind) {
    case SequenceControl::Kind::kStart: return "START";
    case SequenceControl::Kind::kReady: return "READY";
    case SequenceControl::Kind::kEnd: return "END";
    default: return "CORRID";
  }
}

}  // namespace

base::Result<std::string> read_iterative(const Triton& in) {
  constexpr char kBetween = '\x1f';
  msg::SequenceSpec sequence;
  if (auto s = read_controls(in, sequence); !s.ok()) return s;
  std::string out =
      std::to_string(std::clamp(in.oldest().max_candidate_sequences(), 0, int32_t(sched::kMostCandidates)));
  for (const auto& control : sequence.controls) {
    if (control.input.find(kBetween) != std::string::npos) return unfit("the name of a control input");
    char values[64];
    std::snprintf(values, sizeof values, "%d%c%.17g%c%.17g", int(control.dtype), kBetween, control.off, kBetween,
                  control.on);
    for (std::string_view part : {std::string_view(control.input), word_of(control.kind), std::string_view(values)})
      out.append(1, kBetween).append(part);
  }
  return out;
}

base::Result<msg::SequenceSpec> read_sequence(const Triton& in) {
  msg::SequenceSpec out;
  if (in.max_sequence_idle_microseconds() > kLongestIdle)
    return unfit("max_sequence_idle_microseconds of more than a day");
  if (in.max_sequence_idle_microseconds() > 0)
    out.idle = std::chrono::microseconds(in.max_sequence_idle_microseconds());
  for (auto read : {read_controls, read_states, read_strategy})
    if (auto s = read(in, out); !s.ok()) return s;
  return out;
}

}  // namespace weir::models
