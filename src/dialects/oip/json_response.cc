// The writing half of json_infer.h.
#include <algorithm>
#include <utility>

#include "base/recycled.h"

#include "dialects/oip/json_infer.h"
#include "marshal/json_tensor.h"

namespace weir::oip {
namespace {

using marshal::write_number;
using marshal::write_string;
using namespace std::string_view_literals;  // appended without looking for their ends

void write_parameters(std::string& out, const msg::Parameters& parameters) {
  out += ",\"parameters\":{"sv;
  bool first = true;
  for (const auto& [name, value] : parameters) {
    if (!std::exchange(first, false)) out += ',';
    write_parameter(out, name, value);
  }
  out += '}';
}

constexpr size_t kMuchText = 64 << 10;   // of one tensor
constexpr size_t kEnoughText = 1 << 20;  // of all that is written at once

bool too_much(const JsonReply& reply, const msg::Tensor& tensor, LargeTensors large) {
  if (large == LargeTensors::kInline) return false;
  return tensor.data.size() > kMuchText || reply.json.size() > kEnoughText;
}

void write_description(std::string& out, const msg::Tensor& tensor) {
  out += "{\"name\":"sv;
  write_string(out, tensor.name);
  out += ",\"datatype\":\""sv;
  out += msg::name(tensor.dtype);
  out += "\",\"shape\":"sv;
  out += tensor.shape.text();
}

// Writes all that stands before the first output, but for the id.
void write_front(std::string& out, std::string_view model, std::string_view version) {
  out += "{\"model_name\":"sv;
  write_string(out, model);
  out += ",\"model_version\":"sv;
  write_string(out, version);
}

void write_id(std::string& out, std::string_view id) {
  if (id.empty()) return;
  out += ",\"id\":"sv;
  write_string(out, id);
}

// Whether an AnswerTemplate takes it: JSON numbers, with nothing else said.
bool numbers_alone(const InferReply& reply, const OutputForms& forms) {
  if (!reply.parameters.empty() || reply.tensors.empty() || forms.size() != reply.tensors.size()) return false;
  for (size_t i = 0; i < forms.size(); ++i)
    if (forms[i] == OutputForm::kBinary || reply.shared(i) || reply.tensors[i].dtype == msg::DType::kBytes)
      return false;
  return true;
}

void write_output(JsonReply& reply, const msg::Tensor& tensor, OutputForm form, LargeTensors large) {
  std::string& out = reply.json;
  write_description(out, tensor);
  if (form == OutputForm::kBinary) {
    out += ",\"parameters\":{\"binary_data_size\":"sv;
    write_number(out, uint64_t(tensor.data.size()));
    out += "}}"sv;
    reply.blobs.push_back(tensor.data);
    return;
  }
  auto text = marshal::bytes_text(tensor);
  if (text == marshal::BytesText::kBase64) out += ",\"parameters\":{\"content_type\":\"base64\"}"sv;
  out += ",\"data\":"sv;
  if (too_much(reply, tensor, large))
    reply.large.push_back({std::exchange(out, {}), marshal::DataPieces(tensor, text)});
  else
    marshal::write_data(out, tensor, text);
  out += '}';
}

}  // namespace

void write_parameter(std::string& out, std::string_view name, const msg::ParamValue& value) {
  write_string(out, name);
  out += ':';
  std::visit(
      [&out](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, bool>)
          out += x ? "true" : "false";
        else if constexpr (std::is_same_v<T, std::string>)
          write_string(out, x);
        else
          write_number(out, x);
      },
      value);
}

bool AnswerTemplate::write(const InferReply& reply, const OutputForms& forms, std::string& out) {
  if (outputs_.size() != reply.tensors.size() || !numbers_alone(reply, forms)) return false;
  if (reply.model != model_ || reply.version != version_) return false;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const msg::Tensor& tensor = reply.tensors[i];
    const Output& known = outputs_[i];
    if (tensor.dtype != known.dtype || tensor.shape != known.shape || tensor.name != known.name) return false;
  }
  pace_.hit();
  out += text_;
  write_id(out, reply.id);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    out += outputs_[i].text;
    marshal::write_data(out, reply.tensors[i], marshal::BytesText::kUtf8);
  }
  out += "}]}"sv;
  return true;
}

void AnswerTemplate::learn(const InferReply& reply, const OutputForms& forms) {
  if (!pace_.due()) return;
  outputs_.clear();
  size_t bytes = 0;
  for (const auto& tensor : reply.tensors) bytes += tensor.data.size();
  if (bytes > kMostData || !numbers_alone(reply, forms)) return;
  model_ = reply.model, version_ = reply.version;
  text_.clear();
  write_front(text_, model_, version_);
  for (const auto& tensor : reply.tensors) {
    std::string text(outputs_.empty() ? ",\"outputs\":["sv : "},"sv);
    write_description(text, tensor);
    text += ",\"data\":"sv;
    outputs_.push_back({tensor.name, tensor.dtype, tensor.shape, std::move(text)});
  }
}

JsonReply write_infer(const InferReply& reply, const OutputForms& forms, LargeTensors large, AnswerTemplate* known) {
  JsonReply r;
  std::string& out = r.json;
  out = base::SpareText::take();
  if (out.capacity() < 256) out.reserve(256);
  if (known && known->write(reply, forms, out)) return r;
  if (known) known->learn(reply, forms);
  if (std::find(forms.begin(), forms.end(), OutputForm::kBinary) != forms.end()) large = LargeTensors::kInline;
  write_front(out, reply.model, reply.version);
  write_id(out, reply.id);
  if (!reply.parameters.empty()) write_parameters(out, reply.parameters);
  out += ",\"outputs\":["sv;
  for (size_t i = 0; i < reply.tensors.size(); ++i) {
    if (i) out += ',';
    if (reply.shared(i)) {  // without parameters: Triton's C++ client takes any for those of a binary tensor
      write_description(out, reply.tensors[i]);
      out += '}';
    } else {
      write_output(r, reply.tensors[i], forms[i], large);
    }
  }
  out += "]}"sv;
  return r;
}

}  // namespace weir::oip
