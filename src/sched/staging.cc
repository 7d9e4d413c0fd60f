#include "sched/staging.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sched/fit.h"

namespace weir::sched {
namespace {

using base::Code;
using base::Status;

void alias(const msg::Tensor& from, msg::Tensor& to) {
  to.name = from.name;
  to.dtype = from.dtype;
  to.shape = from.shape;
  to.data = from.data;
}

void stage_one(Batch& batch, const msg::ModelSpec& spec) {
  const auto& call = *batch.calls.front();
  if (spec.any_tensors) {
    for (size_t i = 0; i < call.inputs.size(); ++i) alias(call.inputs[i], batch.inputs[i]);
    return;
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (const auto* tensor = input_of(call, spec, i))
      alias(*tensor, batch.inputs[i]);
    else
      batch.inputs[i] = {};
  }
}

// Returns input `i` of a call: the spec's input `i`, or the call's own where the model takes any tensors.
const msg::Tensor* input_at(const msg::Call& call, const msg::ModelSpec& spec, size_t i) {
  return spec.any_tensors ? &call.inputs[i] : input_of(call, spec, i);
}

// Finds the rows of input `i` of all calls, and says what the input is but for its data. False: nobody gives any.
bool find_rows(Batch& batch, const msg::ModelSpec& spec, size_t i, Batch::Apart& found) {
  auto& to = batch.inputs[i];
  const auto* first = input_at(*batch.calls.front(), spec, i);
  if (!first) {
    to = {};
    return false;
  }
  to.name = first->name;
  to.dtype = first->dtype;
  to.shape = first->shape;
  to.shape[0] = int64_t(batch.rows);
  to.data = {};
  for (const auto* call : batch.calls) {
    found.rows.push_back(input_at(*call, spec, i));
    found.bytes += found.rows.back()->data.size();
  }
  return true;
}

// Copies the rows of input `i` of all calls into one slab, or leaves them to the engine. False: there is no slab.
bool gather(Batch& batch, const msg::ModelSpec& spec, size_t i, base::SlabSource& slabs, const Engine* engine) {
  Batch::Apart& apart = batch.apart[i];
  if (!find_rows(batch, spec, i, apart)) return true;
  auto taken = [&](const msg::Tensor* rows) { return engine->takes_rows(*rows); };
  if (engine && std::all_of(apart.rows.begin(), apart.rows.end(), taken)) return true;
  base::Block block(slabs.take(std::exchange(apart.bytes, 0)));
  if (!block) return false;
  for (const auto* rows : apart.rows)
    if (!rows->data.empty()) block.append(rows->data.data(), rows->data.size());
  batch.inputs[i].data = block.freeze();
  return true;
}

void collect_wanted(Batch& batch, const msg::ModelSpec& spec) {
  batch.wanted.clear();
  if (spec.any_tensors) return;
  for (const auto* call : batch.calls)
    if (call->outputs.empty()) return;
  batch.wanted.assign(spec.outputs.size(), false);
  for (const auto* call : batch.calls)
    for (const auto& name : call->outputs)
      for (size_t i = 0; i < spec.outputs.size(); ++i)
        if (spec.outputs[i].name == name) batch.wanted[i] = true;
}

enum class Others : uint8_t { kNone, kSome };
bool bytes_add_up(const msg::Tensor& tensor, Others others) {
  auto elements = tensor.shape.elements();
  if (!elements) return false;
  if (tensor.dtype == msg::DType::kBytes) {
    // Where no other call's rows follow, whoever reads the strings checks their lengths.
    if (others == Others::kNone) return true;
    uint64_t n = 0;
    return msg::for_each_string(tensor.data.view(), [&](std::string_view) { ++n; }) && n == *elements;
  }
  uint64_t bytes = 0;
  return !__builtin_mul_overflow(*elements, msg::size_of(tensor.dtype), &bytes) && bytes == tensor.data.size();
}

// The output has the batch's rows, and the bytes that its shape asks for.
bool is_right(const Batch& batch, const msg::ModelSpec& spec, const msg::Tensor& output) {
  const bool alone = batch.calls.size() == 1;
  const bool batched = spec.max_batch > 0 && (!spec.any_tensors || !alone);
  if (batched && (output.shape.rank() == 0 || output.shape[0] != int64_t(batch.rows))) return false;
  return bytes_add_up(output, alone ? Others::kNone : Others::kSome);
}

}  // namespace

bool stage(Batch& batch, const msg::ModelSpec& spec, base::SlabSource& slabs, Gather how, const Engine* engine) {
  batch.rows = 0;
  for (const auto* call : batch.calls) batch.rows += call->rows;
  batch.failures.clear();
  batch.outputs.clear();
  batch.answers.clear();
  collect_wanted(batch, spec);
  if (how == Gather::kNot) {
    batch.inputs.clear();
    return true;
  }
  batch.inputs.resize(spec.ragged ? 0 : spec.any_tensors ? batch.calls.front()->inputs.size() : spec.inputs.size());
  batch.apart.resize(batch.inputs.size());
  for (auto& apart : batch.apart) apart.bytes = 0, apart.rows.clear();
  if (spec.ragged) return true;
  if (batch.calls.size() == 1) {
    stage_one(batch, spec);
    return true;
  }
  for (size_t i = 0; i < batch.inputs.size(); ++i)
    if (!gather(batch, spec, i, slabs, engine)) return false;
  return true;
}

bool move_outputs(Batch& batch, const msg::ModelSpec& spec, std::vector<msg::Tensor>& outputs) {
  if (batch.calls.size() != 1 || !batch.failures.empty() || !batch.calls.front()->outputs.empty()) return false;
  if (!spec.any_tensors && batch.outputs.size() != spec.outputs.size()) return false;
  for (const auto& output : batch.outputs)
    if (output.dtype == msg::DType::kInvalid || !is_right(batch, spec, output)) return false;
  outputs.swap(batch.outputs);
  for (size_t i = 0; i < outputs.size() && !spec.any_tensors; ++i)
    if (outputs[i].name.empty()) outputs[i].name = spec.outputs[i].name;
  return true;
}

Split::Split(Batch& batch, const msg::ModelSpec& spec, std::vector<Part>& scratch)
    : batch_(batch), spec_(spec), alone_(batch.calls.size() == 1), parts_(scratch) {
  parts_.assign(batch.outputs.size(), Part{});
  if (!batch.failures.empty() && batch.failures.size() != batch.calls.size())
    status_ =
        base::failure(Code::kInternal, "model '" + spec.name + "' reported failures of calls that it was not given");
  for (size_t i = 0; i < batch.outputs.size() && status_.ok(); ++i)
    if (given(i)) status_ = check(batch.outputs[i]);
}

bool Split::given(size_t output) const {
  return output < batch_.outputs.size() && batch_.outputs[output].dtype != msg::DType::kInvalid;
}

Status Split::check(const msg::Tensor& tensor) const {
  if (is_right(batch_, spec_, tensor)) return {};
  return base::failure(Code::kInternal, "model '" + spec_.name + "' gave output '" + tensor.name + "' with shape " +
                                            tensor.shape.text() + " and " + std::to_string(tensor.data.size()) +
                                            " bytes for a batch of " + std::to_string(batch_.rows));
}

// Moves an output's Part to the next `rows` rows. They exist: check() has compared the whole tensor with the batch.
void Split::cut(size_t output, uint64_t rows) {
  const auto& tensor = batch_.outputs[output];
  auto& part = parts_[output];
  if (alone_) {
    part.bytes = tensor.data.size();
    return;
  }
  part.from += part.bytes;
  if (tensor.dtype != msg::DType::kBytes) {
    part.bytes = tensor.data.size() / batch_.rows * rows;
    return;
  }
  auto data = tensor.data.view().substr(part.from);
  size_t end = 0;
  for (uint64_t left = *tensor.shape.elements() / batch_.rows * rows; left > 0; --left) {
    uint32_t n;
    std::memcpy(&n, data.data() + end, sizeof n);
    end += sizeof n + n;
  }
  part.bytes = end;
}

Status Split::next(std::vector<msg::Tensor>& outputs) {
  const auto& call = *batch_.calls[call_++];
  if (!status_.ok()) return status_;
  // Every output is cut, also those that this call does not ask for: the next call's rows begin behind its own.
  for (size_t i = 0; i < batch_.outputs.size(); ++i)
    if (given(i)) cut(i, call.rows);
  if (!batch_.failures.empty() && !batch_.failures[call_ - 1].ok()) return std::move(batch_.failures[call_ - 1]);
  Status status;
  for (size_t i = 0; i < call.outputs.size() && status.ok(); ++i)
    status = take_named(call.outputs[i], call.rows, outputs);
  if (!call.outputs.empty()) return status;
  size_t all = spec_.any_tensors ? batch_.outputs.size() : spec_.outputs.size();
  outputs.reserve(all);
  for (size_t i = 0; i < all && status.ok(); ++i)
    status = take(i, spec_.any_tensors ? std::string_view() : spec_.outputs[i].name, call.rows, outputs);
  return status;
}

Status Split::take_named(std::string_view name, uint32_t rows, std::vector<msg::Tensor>& to) {
  size_t all = spec_.any_tensors ? batch_.outputs.size() : spec_.outputs.size();
  for (size_t i = 0; i < all; ++i)
    if (name == (spec_.any_tensors ? batch_.outputs[i].name : spec_.outputs[i].name)) return take(i, name, rows, to);
  return spec_.no_output(name);
}

Status Split::take(size_t output, std::string_view name, uint32_t rows, std::vector<msg::Tensor>& to) {
  if (!given(output)) return spec_.no_output(name);
  const auto& tensor = batch_.outputs[output];
  const auto& part = parts_[output];
  auto& out =
      to.emplace_back(msg::Tensor{tensor.name, tensor.dtype, tensor.shape, tensor.data.slice(part.from, part.bytes)});
  if (out.name.empty()) out.name = name;
  if (!alone_) out.shape[0] = int64_t(rows);
  return {};
}

}  // namespace weir::sched
