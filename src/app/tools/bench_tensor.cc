#include "app/tools/bench_tensor.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "app/infer_request.h"
#include "app/npy.h"
#include "msg/half.h"

namespace weir::app {
namespace {

using msg::DType;
using msg::Shape;
using msg::Tensor;
using nlohmann::json;

constexpr uint64_t kLargestTensor = uint64_t(1) << 30;  // bytes
constexpr size_t kWord = 8;                             // letters of a random text

template <class T>
void put_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text_element(std::string& out, std::string_view text) {
  put_value(out, uint32_t(text.size()));
  out += text;
}

// One number as an element of that type.
void put_number(std::string& out, DType dtype, double value) {
  switch (dtype) {
    case DType::kBool: return put_value(out, uint8_t(value != 0));
    case DType::kUint8: return put_value(out, uint8_t(value));
    case DType::kUint16: return put_value(out, uint16_t(value));
    case DType::kUint32: return put_value(out, uint32_t(value));
    case DType::kUint64: return put_value(out, uint64_t(value));
    case DType::kInt8: return put_value(out, int8_t(value));
    case DType::kInt16: return put_value(out, int16_t(value));
    case DType::kInt32: return put_value(out, int32_t(value));
    case DType::kInt64: return put_value(out, int64_t(value));
    case DType::kFp16: return put_value(out, msg::fp16_from(float(value)));
    case DType::kBf16: return put_value(out, msg::bf16_from(float(value)));
    case DType::kFp32: return put_value(out, float(value));
    case DType::kFp64: return put_value(out, value);
    case DType::kBytes:
    case DType::kInvalid: return;
  }
}

bool is_fraction(DType dtype) {
  return dtype == DType::kFp16 || dtype == DType::kBf16 || dtype == DType::kFp32 || dtype == DType::kFp64;
}

// "4x16"
base::Result<Shape> shape_from_text(std::string_view text) {
  Shape out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('x'), text.size());
    int64_t dim = 0;
    auto [stop, error] = std::from_chars(text.data(), text.data() + end, dim);
    if (error != std::errc() || stop != text.data() + end || dim < 0 || !out.push(dim))
      return base::invalid("expected a shape such as 4x16, got '" + std::string(text) + "'");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Shape closed(const Shape& shape) {
  Shape out;
  for (int64_t dim : shape.dims()) out.push(dim < 0 ? 1 : dim);
  return out;
}

base::Result<uint64_t> elements_of(const std::string& name, DType dtype, const Shape& shape) {
  const size_t size = dtype == DType::kBytes ? 4 + kWord : msg::size_of(dtype);
  auto elements = shape.elements();
  if (size == 0) return base::invalid("input '" + name + "': its type is not known here");
  if (!elements || *elements > kLargestTensor / size)
    return base::invalid("input '" + name + "': a tensor of more than 1 GiB");
  return *elements;
}

base::Result<Tensor> zero_tensor(const BenchInput& wanted, const Shape& shape) {
  auto elements = elements_of(wanted.name, wanted.dtype, shape);
  if (!elements) return elements.error();
  const size_t size = wanted.dtype == DType::kBytes ? 4 : msg::size_of(wanted.dtype);
  return Tensor{wanted.name, wanted.dtype, shape, base::Bytes::adopt(std::string(*elements * size, '\0'))};
}

base::Result<Tensor> npy_tensor(const BenchInput& wanted, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) return base::invalid("cannot read '" + path + "'");
  auto array = parse_npy(text.str());
  if (!array) return base::invalid(path + ": " + array.error().text);
  Shape shape = array->shape;
  if (shape.rank() + 1 == wanted.shape.rank()) {  // the batch dimension is left out
    shape = Shape{1};
    for (int64_t dim : array->shape.dims()) shape.push(dim);
  }
  return Tensor{wanted.name, array->dtype, shape, base::Bytes::adopt(std::move(array->data))};
}

// Numbers or texts of nested lists, in their order; false for anything else.
bool flatten(const json& value, DType dtype, std::string& out, uint64_t& count) {
  if (value.is_array()) {
    for (const auto& each : value)
      if (!flatten(each, dtype, out, count)) return false;
    return true;
  }
  ++count;
  if (dtype == DType::kBytes) {
    if (value.is_string()) put_text_element(out, value.get<std::string>());
    return value.is_string();
  }
  if (value.is_number_integer() && dtype == DType::kInt64)
    put_value(out, value.get<int64_t>());  // a double has no room for all of it
  else if (value.is_number() || value.is_boolean())
    put_number(out, dtype, value.is_boolean() ? double(value.get<bool>()) : value.get<double>());
  else
    return false;
  return true;
}

base::Result<Tensor> json_tensor(const BenchInput& wanted, const std::string& text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded() && wanted.dtype == DType::kBytes) value = text;
  std::string data;
  uint64_t count = 0;
  if (value.is_discarded() || !flatten(value, wanted.dtype, data, count))
    return base::invalid("input '" + wanted.name + "': '" + text.substr(0, 80) +
                         "' is neither random, zeros, @file.npy nor JSON of the model's type");
  Shape shape;
  uint64_t known = 1;
  for (int64_t dim : wanted.shape.dims()) known *= dim > 0 ? uint64_t(dim) : 1;
  uint64_t rest = known > 0 && count % known == 0 ? count / known : 0;
  for (int64_t dim : wanted.shape.dims()) shape.push(dim >= 0 ? dim : int64_t(std::exchange(rest, 1)));
  if (shape.elements().value_or(0) != count)
    return base::invalid("input '" + wanted.name + "': " + std::to_string(count) + " values do not fill the shape " +
                         wanted.shape.text());
  return Tensor{wanted.name, wanted.dtype, shape, base::Bytes::adopt(std::move(data))};
}

base::Result<Tensor> make_tensor(const BenchInput& wanted, const std::string& value, uint64_t seed) {
  for (std::string_view kind : {"random", "zeros"}) {
    if (!value.starts_with(kind) || (value.size() > kind.size() && value[kind.size()] != ':')) continue;
    Shape shape = closed(wanted.shape);
    if (value.size() > kind.size()) {
      auto given = shape_from_text(std::string_view(value).substr(kind.size() + 1));
      if (!given) return base::invalid("input '" + wanted.name + "': " + given.error().text);
      shape = *given;
    }
    return kind == "zeros" ? zero_tensor(wanted, shape) : random_tensor(wanted.name, wanted.dtype, shape, seed);
  }
  return value.starts_with('@') ? npy_tensor(wanted, value.substr(1)) : json_tensor(wanted, value);
}

std::set<std::string> optional_inputs(const Remote& remote, const std::string& model) {
  std::set<std::string> out;
  auto reply = ask(remote, "GET", model_path(model, "/config"));
  if (!complaint(reply).empty()) return out;
  const json config = json::parse(reply->body, nullptr, false);
  if (!config.is_object() || !config.contains("input") || !config["input"].is_array()) return out;
  for (const auto& row : config["input"])
    if (row.is_object() && row.value("name", json()).is_string() && row.value("optional", json()) == json(true))
      out.insert(row["name"].get<std::string>());
  return out;
}

}  // namespace

base::Result<Tensor> random_tensor(std::string name, DType dtype, const Shape& shape, uint64_t seed) {
  auto elements = elements_of(name, dtype, shape);
  if (!elements) return elements.error();
  std::mt19937_64 random(seed);
  std::string data;
  data.reserve(*elements * std::max<size_t>(msg::size_of(dtype), 1));
  for (uint64_t i = 0; i < *elements; ++i) {
    if (dtype == DType::kBytes) {
      std::string word(kWord, 'a');
      for (auto& letter : word) letter = char('a' + random() % 26);
      put_text_element(data, word);
    } else {
      const double part = double(random() >> 11) * 0x1p-53;  // from 0 to 1
      put_number(data, dtype,
                 is_fraction(dtype)      ? part
                 : dtype == DType::kBool ? double(part < 0.5)
                                         : std::floor(part * 100));
    }
  }
  return Tensor{std::move(name), dtype, shape, base::Bytes::adopt(std::move(data))};
}

bool BenchSignature::is_text() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const auto& in) { return in.name == "text_input"; });
}

base::Result<BenchSignature> bench_signature(const Remote& remote, const std::string& model) {
  auto reply = ask(remote, "GET", model_path(model, ""));
  if (auto wrong = complaint(reply); !wrong.empty()) return base::failure(base::Code::kUnavailable, wrong);
  const json metadata = json::parse(reply->body, nullptr, false);
  if (!metadata.is_object() || !metadata.contains("inputs") || !metadata["inputs"].is_array())
    return base::failure(base::Code::kUnavailable, "the model's metadata is no JSON");
  BenchSignature out;
  const auto optional = optional_inputs(remote, model);
  for (const auto& row : metadata["inputs"]) {
    if (!row.is_object() || !row.value("name", json()).is_string() || !row.value("shape", json()).is_array() ||
        !row.value("datatype", json()).is_string())
      return base::failure(base::Code::kUnavailable, "the model's metadata has an input without name, type or shape");
    BenchInput input{row["name"], msg::dtype_from_name(row["datatype"].get<std::string>()), {}};
    for (const auto& dim : row["shape"]) input.shape.push(dim.is_number_integer() ? dim.get<int64_t>() : -1);
    input.optional = optional.count(input.name) > 0;
    out.inputs.push_back(std::move(input));
  }
  return out;
}

std::vector<std::string> prompt_values(const std::string& prompt, uint32_t max_tokens, BenchAnswers answers) {
  auto text = [](const std::string& value) { return json(value).dump(-1, ' ', false, json::error_handler_t::replace); };
  const json sampling{{"max_tokens", max_tokens}, {"ignore_eos", true}};
  return {"text_input=" + text(prompt),
          std::string("stream=") + (answers == BenchAnswers::kStreamed ? "true" : "false"),
          "sampling_parameters=" + text(sampling.dump()), "exclude_input_in_output=true"};
}

base::Result<std::vector<uint32_t>> prompt_tokens(const Remote& remote, const std::string& model,
                                                  const std::string& prompt) {
  const json body{{"model", model},
                  {"add_generation_prompt", true},
                  {"messages", json::array({{{"role", "user"}, {"content", prompt}}})}};
  auto reply = ask(remote, "POST", "/tokenize", body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (auto wrong = complaint(reply); !wrong.empty()) return base::failure(base::Code::kUnavailable, wrong);
  const json answer = json::parse(reply->body, nullptr, false);
  std::vector<uint32_t> out;
  if (answer.is_object() && answer.contains("tokens") && answer["tokens"].is_array())
    for (const auto& id : answer["tokens"])
      if (id.is_number_unsigned()) out.push_back(id.get<uint32_t>());
  if (out.empty()) return base::failure(base::Code::kUnavailable, "the server's answer to /tokenize has no tokens");
  return out;
}

base::Result<std::vector<Tensor>> bench_tensors(const BenchSignature& signature, const std::vector<std::string>& values,
                                                uint64_t seed) {
  for (const auto& value : values) {
    const std::string name = value.substr(0, value.find('='));
    std::string known;
    for (const auto& input : signature.inputs) known += (known.empty() ? "" : ", ") + input.name;
    const bool found =
        std::any_of(signature.inputs.begin(), signature.inputs.end(), [&](const auto& in) { return in.name == name; });
    if (value.find('=') == value.npos) return base::invalid("input '" + value + "': expected NAME=VALUE");
    if (!found) return base::invalid("the model has no input '" + name + "'; it has " + known);
  }
  std::vector<Tensor> out;
  for (const auto& input : signature.inputs) {
    std::optional<std::string> value;
    if (!input.optional) value = "random";
    for (const auto& given : values)
      if (given.starts_with(input.name + "=")) value = given.substr(input.name.size() + 1);
    if (!value) continue;
    auto tensor = make_tensor(input, *value, seed + out.size());
    if (!tensor) return tensor.error();
    out.push_back(std::move(*tensor));
  }
  return out;
}

}  // namespace weir::app
