#include "sched/staging.h"

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
    batch.inputs.resize(call.inputs.size());
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

// Rows of one input, side by side.
bool gather(Batch& batch, const msg::ModelSpec& spec, size_t i, base::SlabSource& slabs) {
  auto& to = batch.inputs[i];
  const auto* first = input_of(*batch.calls.front(), spec, i);
  if (!first) {
    to = {};
    return true;
  }
  size_t bytes = 0;
  for (const auto* call : batch.calls) bytes += input_of(*call, spec, i)->data.size();
  base::Block block(slabs.take(bytes));
  if (!block) return false;
  for (const auto* call : batch.calls) {
    const auto& data = input_of(*call, spec, i)->data;
    if (!data.empty()) block.append(data.data(), data.size());
  }
  to.name = first->name;
  to.dtype = first->dtype;
  to.shape = first->shape;
  to.shape[0] = int64_t(batch.rows);
  to.data = block.freeze();
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

constexpr size_t npos = std::string_view::npos;

}  // namespace

bool stage(Batch& batch, const msg::ModelSpec& spec, base::SlabSource& slabs) {
  batch.rows = 0;
  for (const auto* call : batch.calls) batch.rows += call->rows;
  batch.failures.clear();
  batch.outputs.clear();
  collect_wanted(batch, spec);
  batch.inputs.resize(spec.any_tensors ? 0 : spec.inputs.size());
  if (batch.calls.size() == 1) {
    stage_one(batch, spec);
    return true;
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (!gather(batch, spec, i, slabs)) return false;
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

// What holds for the whole of an output: it has the batch's rows.
Status Split::check(const msg::Tensor& tensor) const {
  bool batched = spec_.max_batch > 0 && !spec_.any_tensors;
  bool right = tensor.shape.elements().has_value();
  if (batched) right = right && tensor.shape.rank() > 0 && tensor.shape[0] == int64_t(batch_.rows);
  if (right) return {};
  return base::failure(Code::kInternal, "model '" + spec_.name + "' gave output '" + tensor.name + "' with shape " +
                                            tensor.shape.text() + " for a batch of " + std::to_string(batch_.rows));
}

Status Split::missing(std::string_view name) const {
  return base::failure(spec_.any_tensors ? Code::kInvalidArgument : Code::kInternal,
                       "model '" + spec_.name + "' gave no output '" + std::string(name) + "'");
}

Status Split::too_short(const msg::Tensor& tensor) const {
  return base::failure(Code::kInternal, "model '" + spec_.name + "' gave output '" + tensor.name +
                                            "' with the wrong number of bytes for shape " + tensor.shape.text());
}

// Where the strings that begin at `from` end; npos if they are not all there.
size_t Split::strings(const msg::Tensor& tensor, size_t from, uint64_t elements) const {
  auto data = tensor.data.view();
  for (; elements > 0; --elements) {
    uint32_t n;
    if (data.size() - from < sizeof n) return npos;
    std::memcpy(&n, data.data() + from, sizeof n);
    from += sizeof n;
    if (data.size() - from < n) return npos;
    from += n;
  }
  return from;
}

// Moves an output's Part on to the next `rows` rows.
void Split::cut(size_t output, uint64_t rows) {
  const auto& tensor = batch_.outputs[output];
  auto& part = parts_[output];
  if (part.bytes == npos) return;
  part.from += part.bytes;
  part.bytes = npos;
  uint64_t elements = *tensor.shape.elements(), n = 0;
  if (!alone_) elements = elements / batch_.rows * rows;
  if (tensor.dtype == msg::DType::kBytes && spec_.any_tensors) {
    n = tensor.data.size();  // never shared, so nobody else's rows are behind
  } else if (tensor.dtype == msg::DType::kBytes) {
    size_t end = strings(tensor, part.from, elements);
    if (end == npos) return;
    n = end - part.from;
  } else if (__builtin_mul_overflow(elements, msg::size_of(tensor.dtype), &n) || tensor.data.size() - part.from < n) {
    return;
  }
  if (alone_ && tensor.data.size() != n) return;
  part.bytes = n;
}

Status Split::next(std::vector<msg::Tensor>& outputs) {
  const auto& call = *batch_.calls[call_++];
  if (!status_.ok()) return status_;
  // Every output is cut, also those that this call does not want: the next call's rows begin behind them.
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
  return missing(name);
}

Status Split::take(size_t output, std::string_view name, uint32_t rows, std::vector<msg::Tensor>& to) {
  if (!given(output)) return missing(name);
  const auto& tensor = batch_.outputs[output];
  const auto& part = parts_[output];
  if (part.bytes == npos) return too_short(tensor);
  auto& out =
      to.emplace_back(msg::Tensor{tensor.name, tensor.dtype, tensor.shape, tensor.data.slice(part.from, part.bytes)});
  if (out.name.empty()) out.name = name;
  if (!alone_) out.shape[0] = int64_t(rows);
  return {};
}

}  // namespace weir::sched
