#include "dialects/oip/infer_options.h"

#include <algorithm>

#include "marshal/call_parameters.h"
#include "marshal/check.h"

namespace weir::oip {
namespace {

using base::invalid;
using base::Status;
using marshal::get_flag;
using marshal::whole_number;
using marshal::wrong_parameter;

// One of the three parameters of shared memory. False: it is none.
bool apply_shared(RegionRange& range, std::string_view name, msg::ParamValue&& value, Status& status) {
  constexpr std::string_view kPrefix = "shared_memory_";
  if (!name.starts_with(kPrefix)) return false;
  std::string_view what = name.substr(kPrefix.size());
  if (what == "region") {
    auto* region = std::get_if<std::string>(&value);
    if (region && !region->empty())
      range.region = std::move(*region);
    else
      status = wrong_parameter(name, "the name of a region");
  } else if (what == "offset" || what == "byte_size") {
    auto number = whole_number(value);
    if (number)
      (what == "offset" ? range.offset : range.bytes) = *number;
    else
      status = wrong_parameter(name, "a number of bytes");
  } else {
    return false;
  }
  return true;
}

// Names that Triton keeps for itself: a client that sends another one means a server that knows it.
Status apply_reserved(InferOptions& options, std::string_view name, const msg::ParamValue& value) {
  constexpr std::string_view kEmptyFinal = "triton_enable_empty_final_response";
  const bool* flag = std::get_if<bool>(&value);
  if (name == kEmptyFinal && flag) return options.empty_final = *flag, Status();
  const std::string text(name);
  return base::invalid_field("parameters[\"" + text + "\"]",
                             "parameter '" + text + "': names that begin with triton_ are reserved for Triton usage; " +
                                 "a request may have " + std::string(kEmptyFinal) + ", true or false");
}

}  // namespace

Status check_name(std::string_view name, std::string_view what) {
  if (name.size() <= kMaxName) return {};
  return invalid(std::string(what) + " has at most " + std::to_string(kMaxName) + " bytes");
}

std::string unknown_datatype(std::string_view text) {
  return text.size() <= 32 ? "unknown datatype '" + std::string(text) + "'" : "unknown datatype";
}

Status apply(msg::Call& call, InferOptions& options, std::string_view name, msg::ParamValue value) {
  if (name == "binary_data_output") {
    bool binary;
    Status status = get_flag(name, value, binary);
    if (status.ok()) options.form = binary ? OutputForm::kBinary : OutputForm::kJson;
    return status;
  }
  if (name.starts_with("triton_")) return apply_reserved(options, name, value);
  if (Status status = marshal::apply_to_call(call, name, value); !status.ok()) return status;
  if (call.parameters.size() == kMaxParameters)
    return invalid("more than " + std::to_string(kMaxParameters) + " parameters");
  for (auto& [key, old] : call.parameters) {
    if (key != name) continue;
    old = std::move(value);  // in a protobuf map the last one wins
    return {};
  }
  call.parameters.emplace_back(std::string(name), std::move(value));
  return {};
}

Status apply(std::string_view output, OutputOptions& asked, std::string_view name, const msg::ParamValue& value) {
  std::string of = "output '" + std::string(output) + "': ";
  if (name == "classification") {
    auto k = whole_number(value);
    if (!k) return invalid(of + "parameter 'classification' takes a whole number, 0 or more");
    asked.classes = uint32_t(std::min<uint64_t>(*k, UINT32_MAX));  // a row has no more than its classes
  } else if (name == "binary_data") {
    auto* binary = std::get_if<bool>(&value);
    if (!binary) return invalid(of + "parameter 'binary_data' takes true or false");
    asked.form = *binary ? OutputForm::kBinary : OutputForm::kJson;
  } else {
    RegionRange range = asked.shared.value_or(RegionRange());
    Status status;
    if (apply_shared(range, name, msg::ParamValue(value), status)) asked.shared = std::move(range);
    if (!status.ok()) return invalid(of + status.text);
  }
  return {};
}

const SharedInput* InferOptions::find_shared(size_t input) const {
  auto at = std::find_if(shared.begin(), shared.end(), [&](const SharedInput& s) { return s.input == input; });
  return at == shared.end() ? nullptr : &*at;
}

Status apply_input(const msg::Call& call, InferOptions& options, std::string_view name, msg::ParamValue value) {
  const size_t input = call.inputs.size() - 1;
  RegionRange first;
  const bool known = !options.shared.empty() && options.shared.back().input == input;
  RegionRange& range = known ? options.shared.back().range : first;
  Status status;
  if (!apply_shared(range, name, std::move(value), status)) return {};
  if (!status.ok()) return invalid("input '" + call.inputs.back().name + "': " + status.text);
  if (!known) options.shared.push_back({input, std::move(first)});
  return {};
}

Status check_output(std::string_view output, const OutputOptions& asked) {
  if (!asked.shared) return {};
  std::string of = "output '" + std::string(output) + "': ";
  if (asked.shared->region.empty())
    return invalid(of + "it has parameters of shared memory but no shared_memory_region");
  if (asked.classes > 0) return invalid(of + "Output can't set both 'shared_memory_region' and 'classification'");
  if (asked.form == OutputForm::kBinary)
    return invalid(of + "Output can't set both 'shared_memory_region' and 'binary_data'");
  return {};
}

Status select_outputs(const msg::ModelSpec& spec, const msg::Call& call, const InferOptions& options,
                      msg::Outputs& outputs, OutputForms& forms) {
  if (call.outputs.empty()) {
    forms.assign(outputs.tensors.size(), options.form);
    return {};
  }
  forms.clear();
  if (spec.decoupled && outputs.final && outputs.tensors.empty()) return {};  // the end, and no answer
  std::vector<msg::Tensor> granted;
  granted.reserve(call.outputs.size());
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const OutputOptions& asked = options.outputs[i];
    auto at = marshal::find_output(spec, outputs.tensors, call.outputs[i]);
    if (!at) return std::move(at).error();
    granted.push_back(std::move(outputs.tensors[*at]));
    forms.push_back(asked.form == OutputForm::kUnsaid ? options.form : asked.form);
  }
  outputs.tensors = std::move(granted);
  return {};
}

namespace {

Status write_shared(const RegionRange& range, const msg::Tensor& tensor) {
  if (tensor.data.size() > range.bytes)
    return invalid("shared memory size specified with the request for output '" + tensor.name + "' (" +
                   std::to_string(range.bytes) + " bytes) should be at least " + std::to_string(tensor.data.size()) +
                   " bytes to hold the results");
  return range.memory->write(range.offset, tensor.data.span());
}

}  // namespace

Status finish_outputs(const msg::ModelSpec& spec, const std::vector<OutputOptions>& options,
                      std::vector<msg::Tensor>& tensors) {
  static const std::vector<std::string> kNone;
  if (tensors.empty()) return {};
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i].classes == 0) continue;
    const msg::TensorSpec* declared = spec.output(tensors[i].name);
    Status status = classify(tensors[i], options[i].classes, declared ? declared->labels : kNone,
                             spec.max_batch > 0 ? Rows::kBatch : Rows::kOne);
    if (!status.ok()) return status;
  }
  if (Status status = marshal::check_outputs(tensors); !status.ok()) return status;
  for (size_t i = 0; i < options.size(); ++i)
    if (options[i].shared)
      if (Status status = write_shared(*options[i].shared, tensors[i]); !status.ok()) return status;
  return {};
}

size_t work_on(const std::vector<OutputOptions>& options, const std::vector<msg::Tensor>& tensors,
               const OutputForms& forms, Writes writes) {
  const bool beside =
      writes == Writes::kJsonBesideBinary && std::find(forms.begin(), forms.end(), OutputForm::kBinary) != forms.end();
  constexpr size_t kCopied = 64;  // so many bytes are copied in the time of one that becomes text
  auto shared = [&](size_t i) { return i < options.size() && options[i].shared; };
  const bool strings = marshal::string_bytes(tensors) > marshal::kLongStrings;
  size_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (strings && tensors[i].dtype == msg::DType::kBytes)
      bytes += tensors[i].data.size();
    else if (shared(i))
      bytes += tensors[i].data.size() / kCopied;
    else if (writes == Writes::kJson || (beside && forms[i] != OutputForm::kBinary) ||
             (i < options.size() && options[i].classes > 0))
      bytes += tensors[i].data.size();
  return bytes;
}

}  // namespace weir::oip
