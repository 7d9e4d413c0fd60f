#include "sched/sequence_tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

namespace weir::sched {
namespace {

using base::Status;
using msg::DType;
using Kind = msg::SequenceSpec::Control::Kind;

// The shape of one row, every open dimension being 1.
msg::Shape one_row(const msg::ModelSpec& whole, const msg::Shape& of_row) {
  msg::Shape out;
  if (whole.max_batch > 0) out.push(1);
  for (int64_t d : of_row.dims()) out.push(d < 0 ? 1 : d);
  return out;
}

template <class T>
base::Bytes bytes_of(T value) {
  return base::Bytes::copy_of({reinterpret_cast<const char*>(&value), sizeof value});
}

base::Bytes flag_bytes(DType dtype, double value) {
  if (dtype == DType::kFp32) return bytes_of(float(value));
  if (dtype == DType::kBool) return bytes_of(uint8_t(value != 0));
  return bytes_of(int32_t(value));
}

// Where an integer of `dtype` ends; BYTES take any.
uint64_t most_of(DType dtype) {
  switch (dtype) {
    case DType::kInt32: return std::numeric_limits<int32_t>::max();
    case DType::kUint32: return std::numeric_limits<uint32_t>::max();
    case DType::kInt64: return std::numeric_limits<int64_t>::max();
    default: return std::numeric_limits<uint64_t>::max();
  }
}

// The id as 64 bits; nothing for a string.
std::optional<uint64_t> whole_number(const msg::ParamValue& id) {
  if (auto* u = std::get_if<uint64_t>(&id)) return *u;
  if (auto* i = std::get_if<int64_t>(&id)) return uint64_t(*i);
  return std::nullopt;
}

base::Bytes id_bytes(DType dtype, const msg::ParamValue& id) {
  const auto number = whole_number(id);
  if (dtype == DType::kBytes) {
    std::string data;
    msg::append_string(data, number ? std::to_string(*number) : std::get<std::string>(id));
    return base::Bytes::adopt(std::move(data));
  }
  return msg::size_of(dtype) == 4 ? bytes_of(uint32_t(*number)) : bytes_of(*number);
}

msg::Tensor initial_of(const msg::ModelSpec& whole, const msg::SequenceSpec::State& state) {
  msg::Tensor out{state.input, state.dtype, one_row(whole, state.initial ? state.initial->shape : state.shape), {}};
  const uint64_t bytes = out.shape.elements().value_or(0) * std::max<uint64_t>(msg::size_of(state.dtype), 1);
  const size_t each = state.dtype == DType::kBytes ? 4 : 1;  // of an empty string: its length
  out.data = state.initial && !state.initial->zero ? state.initial->data
                                                   : base::Bytes::adopt(std::string(size_t(bytes) * each, '\0'));
  return out;
}

}  // namespace

SequenceTensors::SequenceTensors(const msg::ModelSpec& whole, const msg::SequenceSpec& sequences)
    : whole_(whole), sequences_(sequences) {
  for (const auto& control : sequences.controls) {
    msg::Tensor tensor{control.input, control.dtype, one_row(whole, whole.input(control.input)->shape), {}};
    if (control.kind == Kind::kCorrelationId) {
      ids_.push_back(std::move(tensor));
      continue;
    }
    Flag flag{control.kind, tensor, tensor};
    flag.off.data = flag_bytes(control.dtype, control.off);
    flag.on.data = flag_bytes(control.dtype, control.on);
    flags_.push_back(std::move(flag));
  }
  for (const auto& state : sequences.states) initial_.push_back(initial_of(whole, state));
}

Status SequenceTensors::check_id(const msg::ParamValue& id) const {
  const auto number = whole_number(id);
  for (const auto& control : ids_) {
    if (control.dtype == DType::kBytes) continue;
    if (!number)
      return base::invalid("the sequence id of a request to model '" + whole_.name +
                           "' must be a whole number: its correlation id '" + control.name + "' is " +
                           std::string(msg::name(control.dtype)));
    if (*number > most_of(control.dtype))
      return base::invalid("sequence id " + std::to_string(*number) + " is too large for model '" + whole_.name +
                           "': its correlation id '" + control.name + "' is " + std::string(msg::name(control.dtype)));
  }
  return {};
}

void SequenceTensors::add(msg::Call& call, const SequencePosition& position,
                          const std::vector<msg::Tensor>& state) const {
  call.inputs.reserve(call.inputs.size() + flags_.size() + ids_.size() + initial_.size());
  for (const auto& flag : flags_) {
    const bool on = flag.kind == Kind::kReady || (flag.kind == Kind::kStart ? position.start : position.end);
    call.inputs.push_back(on ? flag.on : flag.off);
  }
  for (const auto& id : ids_) call.inputs.push_back({id.name, id.dtype, id.shape, id_bytes(id.dtype, position.id)});
  for (const auto& tensor : state.empty() ? initial_ : state) call.inputs.push_back(tensor);
  if (call.outputs.empty()) return;
  for (const auto& kept : sequences_.states) call.outputs.push_back(kept.output);
}

void SequenceTensors::remove(msg::Call& call) const {
  const size_t added = flags_.size() + ids_.size() + initial_.size();
  call.inputs.erase(call.inputs.end() - std::ptrdiff_t(added), call.inputs.end());
  if (!call.outputs.empty()) call.outputs.resize(call.outputs.size() - sequences_.states.size());
}

Status SequenceTensors::take(std::vector<msg::Tensor>& outputs, std::vector<msg::Tensor>& state,
                             base::MemoryCharge& charge) const {
  std::vector<msg::Tensor> taken;
  size_t bytes = 0;
  for (const auto& kept : sequences_.states) {
    auto found = std::find_if(outputs.begin(), outputs.end(), [&](const auto& t) { return t.name == kept.output; });
    if (found == outputs.end()) return whole_.no_output(kept.output);
    const auto& before = initial_[taken.size()].shape;
    const bool of_one_row = whole_.max_batch == 0 || (found->shape.rank() > 0 && found->shape[0] == before[0]);
    if (found->shape.rank() != before.rank() || !of_one_row)
      return base::failure(base::Code::kInternal, "model '" + whole_.name + "' gave the state '" + kept.output +
                                                      "' with shape " + found->shape.text() +
                                                      ", which is not one row of " + std::to_string(before.rank()) +
                                                      " dimensions");
    taken.push_back({kept.input, found->dtype, found->shape, found->data});
    bytes += found->data.size();
    outputs.erase(found);
  }
  if (!charge.resize(bytes))
    return base::try_again(base::Code::kResourceExhausted,
                           "there is no memory for the state of another sequence of "
                           "model '" +
                               whole_.name + "'; try again later");
  for (auto& tensor : taken) tensor.data = base::Bytes::copy_of(tensor.data.view());
  state = std::move(taken);
  return {};
}

}  // namespace weir::sched
