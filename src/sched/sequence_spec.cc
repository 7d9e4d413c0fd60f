#include "sched/sequence_spec.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace weir::sched {
namespace {

using base::Status;

constexpr size_t kMostPreferred = 1024;

Status check_tensor(const msg::TensorSpec* there, msg::DType dtype, const std::string& what, const std::string& model) {
  if (!there) return base::invalid("sequence_batching: model '" + model + "' has no " + what);
  if (dtype == there->dtype) return {};
  return base::invalid("sequence_batching: " + what + " is " + std::string(msg::name(dtype)) +
                       " in the configuration and " + std::string(msg::name(there->dtype)) + " in the model");
}

}  // namespace

base::Result<msg::ModelSpec> without_sequence_tensors(const msg::ModelSpec& whole, const msg::SequenceSpec& sequences) {
  msg::ModelSpec out = whole;
  auto take = [](std::vector<msg::TensorSpec>& tensors, const std::string& name) {
    return std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; }) == 1;
  };
  auto twice = [](const std::string& name) {
    return base::invalid("sequence_batching: tensor '" + name + "' has two uses");
  };
  for (const auto& control : sequences.controls) {
    const auto* there = whole.input(control.input);
    if (auto s = check_tensor(there, control.dtype, "input '" + control.input + "'", whole.name); !s.ok()) return s;
    for (int64_t d : there->shape.dims())
      if (d != 1 && d != -1)
        return base::invalid("sequence_batching: control input '" + control.input + "' has shape " +
                             there->shape.text() + "; it must have one element");
    if (!take(out.inputs, control.input)) return twice(control.input);
  }
  for (const auto& state : sequences.states) {
    const auto *in = whole.input(state.input), *made = whole.output(state.output);
    if (auto s = check_tensor(in, state.dtype, "input '" + state.input + "'", whole.name); !s.ok()) return s;
    if (auto s = check_tensor(made, state.dtype, "output '" + state.output + "'", whole.name); !s.ok()) return s;
    const msg::Shape& starts = state.initial ? state.initial->shape : state.shape;
    if (!std::equal(
            starts.dims().begin(), starts.dims().end(), in->shape.dims().begin(), in->shape.dims().end(),
            [](int64_t is, int64_t want) { return want < 0 || std::max<int64_t>(is, 1) == want || is == want; }))
      return base::invalid("sequence_batching: state '" + state.input + "' has shape " + starts.text() +
                           " in the configuration and " + in->shape.text() + " in the model");
    if (!take(out.inputs, state.input)) return twice(state.input);
    if (!take(out.outputs, state.output)) return twice(state.output);
  }
  return out;
}

void share_batches(msg::ModelSpec& spec, const msg::SequenceSpec& sequences) {
  auto& batching = spec.batching;
  batching.dynamic = spec.max_batch > 1;
  batching.max_delay = sequences.max_delay;
  batching.preserve_ordering = sequences.preserve_ordering;
  batching.preferred = sequences.preferred;
  std::erase_if(batching.preferred, [&](uint32_t size) { return size > spec.max_batch; });
  if (sequences.strategy != msg::SequenceSpec::Strategy::kDirect) return;
  const float share = sequences.minimum_utilization > 0 ? std::min(sequences.minimum_utilization, 1.0F) : 0;
  auto enough = uint32_t(std::ceil(double(share) * spec.max_batch));
  while (enough > 0 && float(enough - 1) / float(spec.max_batch) >= share) --enough;  // as Triton: 0.3 of 10 are 3
  if (enough <= 1) return void(batching.max_delay = base::Duration(0));
  for (uint32_t size = enough; size <= spec.max_batch && batching.preferred.size() < kMostPreferred; ++size)
    batching.preferred.push_back(size);
}

void wait_for_slots(msg::ModelSpec& spec, msg::SequenceSpec& sequences) {
  sequences.queue = spec.batching;
  static_cast<msg::QueuePolicy&>(spec.batching) = {0, base::Duration(0), false,
                                                   msg::QueuePolicy::TimeoutAction::kReject};
  spec.batching.levels.clear();
}

}  // namespace weir::sched
