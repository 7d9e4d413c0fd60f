#include "dialects/oip/sequence_view.h"

#include <chrono>

namespace weir::oip {

namespace pb = inference;

pb::DataType data_type(msg::DType dtype) {
  using msg::DType;
  switch (dtype) {
    case DType::kBool: return pb::TYPE_BOOL;
    case DType::kUint8: return pb::TYPE_UINT8;
    case DType::kUint16: return pb::TYPE_UINT16;
    case DType::kUint32: return pb::TYPE_UINT32;
    case DType::kUint64: return pb::TYPE_UINT64;
    case DType::kInt8: return pb::TYPE_INT8;
    case DType::kInt16: return pb::TYPE_INT16;
    case DType::kInt32: return pb::TYPE_INT32;
    case DType::kInt64: return pb::TYPE_INT64;
    case DType::kFp16: return pb::TYPE_FP16;
    case DType::kFp32: return pb::TYPE_FP32;
    case DType::kFp64: return pb::TYPE_FP64;
    case DType::kBytes: return pb::TYPE_STRING;
    case DType::kBf16: return pb::TYPE_BF16;
    case DType::kInvalid: break;
  }
  return pb::TYPE_INVALID;
}

namespace {

using Triton = pb::ModelSequenceBatching;
using Control = msg::SequenceSpec::Control;

uint64_t whole_microseconds(base::Duration d) {
  return uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(d).count());
}

Triton::Control::Kind kind_of(Control::Kind kind) {
  switch (kind) {
    case Control::Kind::kReady: return Triton::Control::CONTROL_SEQUENCE_READY;
    case Control::Kind::kEnd: return Triton::Control::CONTROL_SEQUENCE_END;
    case Control::Kind::kCorrelationId: return Triton::Control::CONTROL_SEQUENCE_CORRID;
    case Control::Kind::kStart: break;
  }
  return Triton::Control::CONTROL_SEQUENCE_START;
}

void fill(Triton::ControlInput& to, const Control& control) {
  to.set_name(control.input);
  auto& out = *to.add_control();
  out.set_kind(kind_of(control.kind));
  if (control.kind == Control::Kind::kCorrelationId) return out.set_data_type(data_type(control.dtype));
  for (double value : {control.off, control.on}) {
    if (control.dtype == msg::DType::kInt32) out.add_int32_false_true(int32_t(value));
    if (control.dtype == msg::DType::kFp32) out.add_fp32_false_true(float(value));
    if (control.dtype == msg::DType::kBool) out.add_bool_false_true(value != 0);
  }
}

void fill(Triton::State& to, const msg::SequenceSpec::State& state) {
  to.set_input_name(state.input);
  to.set_output_name(state.output);
  to.set_data_type(data_type(state.dtype));
  for (int64_t d : state.shape.dims()) to.add_dims(d);
  to.set_use_same_buffer_for_input_output(state.same_buffer);
  to.set_use_growable_memory(state.growable);
  if (!state.initial) return;
  auto& initial = *to.add_initial_state();
  initial.set_name(state.initial->name);
  initial.set_data_type(data_type(state.initial->dtype));
  for (int64_t d : state.initial->shape.dims()) initial.add_dims(d);
  if (state.initial->zero)
    initial.set_zero_data(true);
  else
    initial.set_data_file(state.initial->file);
}

}  // namespace

void fill(Triton& to, const msg::SequenceSpec& sequences) {
  to.set_max_sequence_idle_microseconds(whole_microseconds(sequences.idle));
  for (const auto& control : sequences.controls) fill(*to.add_control_input(), control);
  for (const auto& state : sequences.states) fill(*to.add_state(), state);
  if (sequences.strategy == msg::SequenceSpec::Strategy::kDirect) {
    to.mutable_direct()->set_max_queue_delay_microseconds(whole_microseconds(sequences.max_delay));
    to.mutable_direct()->set_minimum_slot_utilization(sequences.minimum_utilization);
    return;
  }
  auto& oldest = *to.mutable_oldest();
  oldest.set_max_candidate_sequences(int32_t(sequences.max_candidates));
  for (uint32_t size : sequences.preferred) oldest.add_preferred_batch_size(int32_t(size));
  oldest.set_max_queue_delay_microseconds(whole_microseconds(sequences.max_delay));
  oldest.set_preserve_ordering(sequences.preserve_ordering);
}

}  // namespace weir::oip
