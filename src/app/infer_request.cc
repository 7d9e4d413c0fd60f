#include "app/infer_request.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/npy.h"
#include "base/encoding.h"

namespace weir::app {
namespace {

using nlohmann::json;

std::string string_at(const json& row, const char* key) {
  auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<int64_t> dims_of(const json& shape) {
  std::vector<int64_t> dims;
  for (const auto& d : shape) dims.push_back(d.is_number_integer() ? d.get<int64_t>() : -1);
  return dims;
}

// The shape of nested lists, [2,3] for [[1,2,3],[4,5,6]]; raggedness is for the server to find.
std::vector<int64_t> nested_dims(const json& value) {
  std::vector<int64_t> dims;
  for (const json* at = &value; at->is_array(); at = &at->front()) {
    dims.push_back(int64_t(at->size()));
    if (at->empty()) break;
  }
  return dims;
}

// Fits the shape that was given to the one that the model wants: a flat list takes the wanted shape if that leaves one
// free dimension at most, and a missing batch dimension is added.
std::vector<int64_t> fit(std::vector<int64_t> given, const std::vector<int64_t>& wanted) {
  if (given.size() == wanted.size()) return given;
  int64_t elements = 1, known = 1;
  size_t open = 0;
  for (int64_t d : given) elements *= d;
  for (int64_t d : wanted) d < 0 ? void(++open) : void(known *= d);
  if (known <= 0 || elements % known != 0 || (open == 0 && elements != known)) return given;
  std::vector<int64_t> out;
  int64_t rest = elements / known;
  for (int64_t d : wanted) out.push_back(d >= 0 ? d : std::exchange(rest, 1));
  return out;
}

struct Input {
  json head;         // one entry of "inputs"
  std::string blob;  // binary data, when there is any
};

base::Result<Input> from_npy(const std::string& path, const json& wanted) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf())) return base::invalid("cannot read '" + path + "'");
  auto array = parse_npy(text.str());
  if (!array) return base::invalid(path + ": " + array.error().text);
  Input input;
  std::vector<int64_t> dims(array->shape.dims().begin(), array->shape.dims().end());
  input.head = {{"datatype", msg::name(array->dtype)},
                {"shape", fit(dims, dims_of(wanted["shape"]))},
                {"parameters", {{"binary_data_size", array->data.size()}}}};
  input.blob = std::move(array->data);
  return input;
}

Input zeros(const json& wanted) {
  Input input;
  auto dims = dims_of(wanted["shape"]);
  int64_t elements = 1;
  for (auto& d : dims) d = d < 0 ? 1 : d, elements *= d;
  std::string type = string_at(wanted, "datatype");
  json zero = type == "BYTES" ? json("") : type == "BOOL" ? json(false) : json(0);
  input.head = {{"datatype", type}, {"shape", dims}, {"data", json::array()}};
  for (int64_t i = 0; i < elements; ++i) input.head["data"].push_back(zero);
  return input;
}

base::Result<Input> make_input(const std::string& name, const std::string& value, const json& wanted) {
  base::Result<Input> input = Input{};
  if (value == "zeros") {
    input = zeros(wanted);
  } else if (value.starts_with('@')) {
    input = from_npy(value.substr(1), wanted);
  } else {
    auto data = json::parse(value, nullptr, false);
    if (data.is_discarded()) {
      if (string_at(wanted, "datatype") != "BYTES")
        return base::invalid("input '" + name + "': '" + value + "' is no JSON");
      data = value;
    }
    if (!data.is_array()) data = json::array({data});
    input->head = {{"datatype", string_at(wanted, "datatype")},
                   {"shape", fit(nested_dims(data), dims_of(wanted["shape"]))},
                   {"data", data}};
  }
  if (input) input->head["name"] = name;
  return input;
}

base::Result<InferRequest> infer_request(const json& metadata, const std::vector<std::string>& inputs) {
  json head{{"inputs", json::array()}};
  std::string blobs;
  for (const auto& text : inputs) {
    size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    if (equals == std::string::npos) return base::invalid("input '" + text + "': expected NAME=VALUE");
    const json* wanted = nullptr;
    std::string known;
    for (const auto& row : metadata["inputs"]) {
      known += (known.empty() ? "" : ", ") + string_at(row, "name");
      if (string_at(row, "name") == name) wanted = &row;
    }
    // A model that takes any tensors names none.
    json any{{"datatype", "FP32"}, {"shape", json::array()}};
    if (!wanted && !known.empty()) return base::invalid("the model has no input '" + name + "'; it has " + known);
    auto input = make_input(name, text.substr(equals + 1), wanted ? *wanted : any);
    if (!input) return input.error();
    head["inputs"].push_back(std::move(input->head));
    blobs += input->blob;
  }
  InferRequest request;
  try {
    request.bytes = head.dump();
  } catch (const json::exception&) {
    return base::invalid("inputs are given in UTF-8; other bytes take a file (NAME=@file.npy)");
  }
  request.fields.emplace_back("content-type", blobs.empty() ? "application/json" : "application/octet-stream");
  if (!blobs.empty())
    request.fields.emplace_back("inference-header-content-length", std::to_string(request.bytes.size()));
  request.bytes += blobs;
  return request;
}

std::vector<std::string> all_zeros(const json& metadata) {
  std::vector<std::string> inputs;
  for (const auto& row : metadata["inputs"]) inputs.push_back(string_at(row, "name") + "=zeros");
  return inputs;
}

}  // namespace

std::string model_path(const std::string& model, std::string_view rest) {
  return "/v2/models/" + base::percent_encode(model) + std::string(rest);
}

base::Result<InferRequest> make_infer_request(const Remote& remote, const std::string& model,
                                              const std::vector<std::string>& inputs) {
  auto reply = ask(remote, "GET", model_path(model, ""));
  if (auto wrong = complaint(reply); !wrong.empty()) return base::failure(base::Code::kUnavailable, wrong);
  auto metadata = json::parse(reply->body, nullptr, false);
  if (!metadata.is_object() || !metadata["inputs"].is_array())
    return base::failure(base::Code::kInternal, "the model's metadata is no JSON");
  return infer_request(metadata, inputs.empty() ? all_zeros(metadata) : inputs);
}

}  // namespace weir::app
