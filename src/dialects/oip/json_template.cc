// The reading half of json_template.h.
#include "dialects/oip/json_template.h"

#include <algorithm>
#include <utility>

#include "base/memory_ledger.h"
#include "marshal/number_run.h"

namespace weir::oip {
namespace {

bool has_plain_runs(msg::DType dtype) {
  return dtype == msg::DType::kFp32 || dtype == msg::DType::kFp64 || dtype == msg::DType::kInt32 ||
         dtype == msg::DType::kInt64;
}

size_t read_plain_run(msg::DType dtype, std::string_view text, std::byte* to, size_t most, size_t* used) {
  switch (dtype) {
    case msg::DType::kFp32: return marshal::read_numbers(text, reinterpret_cast<float*>(to), most, used);
    case msg::DType::kFp64: return marshal::read_numbers(text, reinterpret_cast<double*>(to), most, used);
    case msg::DType::kInt32: return marshal::read_numbers(text, reinterpret_cast<int32_t*>(to), most, used);
    case msg::DType::kInt64: return marshal::read_numbers(text, reinterpret_cast<int64_t*>(to), most, used);
    default: return 0;
  }
}

bool is_default(const OutputOptions& asked) {
  return asked.classes == 0 && asked.form == OutputForm::kUnsaid && !asked.shared;
}

// Nothing but tensors has been said. Priorities, timeouts and sequences are parameters, too.
bool says_tensors_alone(const msg::Call& call, const InferOptions& options) {
  return call.id.empty() && call.parameters.empty() && options.form == OutputForm::kJson && !options.empty_final &&
         options.shared.empty() && options.outputs.size() == call.outputs.size() &&
         std::all_of(options.outputs.begin(), options.outputs.end(), is_default);
}

}  // namespace

// Takes the elements off the front of `text`; empty where they are not all plain.
base::Bytes RequestTemplate::cells(const Input& in, std::string_view& text, base::SlabSource& slabs) {
  if (in.elements > text.size() / 2) return {};  // each takes a character and what follows it
  const size_t bytes = in.elements * msg::size_of(in.dtype);
  base::Block block(base::take_now(slabs, bytes));
  size_t used = 0;
  if (read_plain_run(in.dtype, text, block.data(), in.elements, &used) != in.elements) return {};
  text.remove_prefix(used);
  block.resize(bytes);
  return block.freeze();
}

bool RequestTemplate::read(std::string_view json, base::SlabSource& slabs, msg::Call& call, InferOptions& options) {
  if (inputs_.empty()) return false;
  std::string_view text = text_;
  bool right = true;
  for (size_t i = 0; i < inputs_.size() && right; ++i) {
    const size_t before = inputs_[i].text;
    right = json.starts_with(text.substr(0, before));
    if (!right) break;
    json.remove_prefix(before), text.remove_prefix(before);
    base::Bytes& data = call.inputs.emplace_back().data;
    data = cells(inputs_[i], json, slabs);
    right = !data.empty();
  }
  if (!right || json != text) return call.inputs.clear(), false;
  pace_.hit();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    msg::Tensor& tensor = call.inputs[i];
    tensor.name = inputs_[i].name;
    tensor.dtype = inputs_[i].dtype;
    tensor.shape = inputs_[i].shape;
  }
  if (!outputs_.empty()) {
    call.outputs = outputs_;
    options.outputs.resize(outputs_.size());
  }
  return true;
}

void RequestTemplate::learn(std::string_view json, std::span<const DataSpan> data, const msg::Call& call,
                            const InferOptions& options) {
  if (!pace_.due()) return;
  inputs_.clear();  // last of all they are there again, so that memory that runs out leaves nothing half learned
  size_t elements = 0;
  for (const DataSpan& span : data) elements += span.to - span.from;
  const bool few = !data.empty() && data.size() <= kMostInputs && data.size() == call.inputs.size();
  if (!few || json.size() - elements > kMostText || !says_tensors_alone(call, options)) return;
  text_.clear();
  size_t at = 0;
  for (const DataSpan& span : data) {
    text_ += json.substr(at, span.from - at);
    at = span.to;
  }
  text_ += json.substr(at);
  outputs_ = call.outputs;
  inputs_ = inputs_of(json, data, call);
}

// Empty where numbers in some input cannot be plain.
std::vector<RequestTemplate::Input> RequestTemplate::inputs_of(std::string_view json, std::span<const DataSpan> data,
                                                               const msg::Call& call) {
  std::vector<Input> inputs;
  size_t at = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    const msg::Tensor& tensor = call.inputs[i];
    const size_t width = msg::size_of(tensor.dtype);
    const std::string_view numbers = json.substr(data[i].from, data[i].to - data[i].from);
    const bool led = !numbers.empty() && (numbers.front() == '-' || (numbers.front() >= '0' && numbers.front() <= '9'));
    if (!led || !has_plain_runs(tensor.dtype) || tensor.data.empty()) return {};
    inputs.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data.size() / width, data[i].from - at});
    at = data[i].to;
  }
  return inputs;
}

}  // namespace weir::oip
