#include "app/infer_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/infer_input.h"
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

base::Status ask_for(const Remote& remote, const std::string& path, const char* what, json& out) {
  auto reply = ask(remote, "GET", path);
  if (auto wrong = complaint(reply); !wrong.empty()) return base::failure(base::Code::kUnavailable, wrong);
  out = json::parse(reply->body, nullptr, false);
  return out.is_object() ? base::Status() : base::failure(base::Code::kInternal, std::string(what) + " is no JSON");
}

base::Result<std::vector<WantedInput>> inputs_of(const Remote& remote, const std::string& model) {
  json metadata;
  if (auto s = ask_for(remote, model_path(model, ""), "the model's metadata", metadata); !s.ok()) return s;
  if (!metadata["inputs"].is_array()) return base::failure(base::Code::kInternal, "the model's metadata has no inputs");
  std::vector<WantedInput> wanted;
  for (const auto& row : metadata["inputs"])
    wanted.push_back({string_at(row, "name"), string_at(row, "datatype"), dims_of(row.value("shape", json::array()))});
  return wanted;
}

// Metadata does not say which inputs are optional; where the configuration cannot be read, none is missing.
std::vector<WantedInput> required(const Remote& remote, const std::string& model, std::vector<WantedInput> wanted) {
  json config;
  auto read = ask_for(remote, model_path(model, "/config"), "the model's configuration", config);
  if (!read.ok() || !config["input"].is_array()) return {};
  for (const auto& row : config["input"])
    if (row.is_object() && row.contains("optional") && row["optional"] == true)
      std::erase_if(wanted, [&](const auto& w) { return w.name == string_at(row, "name"); });
  return wanted;
}

std::string how_to_give(const WantedInput& wanted) {
  const bool picture = wanted.shape.size() >= 3;
  std::string how = "-i " + wanted.name + "=zeros";
  how += wanted.datatype == "BYTES" ? ", =\"text\" or =@file"
         : picture                  ? ", =@picture.jpg or =@file.npy"
                                    : " or =@file.npy";
  return text_of(wanted) + " (" + how + ")";
}

base::Status missing(const std::string& model, const std::vector<WantedInput>& wanted, bool any_given) {
  std::string text = "model '" + model + "' " + (any_given ? "also takes " : "takes ");
  for (const auto& input : wanted) text += (&input == wanted.data() ? "" : "; ") + how_to_give(input);
  return base::invalid(std::move(text));
}

base::Result<WantedInput> find_input(const std::vector<WantedInput>& wanted, const std::string& name) {
  std::string known;
  for (const auto& input : wanted) {
    if (input.name == name) return input;
    known += (known.empty() ? "" : ", ") + input.name;
  }
  // A model that takes any tensors names none.
  if (wanted.empty()) return WantedInput{name, "FP32", {}, false};
  return base::invalid("the model has no input '" + name + "'; it has " + known);
}

base::Result<InferRequest> infer_request(const std::vector<WantedInput>& wanted, const std::vector<GivenInput>& given) {
  json head{{"inputs", json::array()}};
  std::string blobs;
  for (const auto& one : given) {
    auto found = find_input(wanted, one.name);
    if (!found) return found.error();
    auto input = make_input(one, *found);
    if (!input) return input.error();
    head["inputs"].push_back(std::move(input->head));
    blobs += input->blob;
  }
  InferRequest request;
  try {
    request.bytes = head.dump();
  } catch (const json::exception&) {
    return base::invalid("inputs are given in UTF-8; other bytes take a file (NAME=@file)");
  }
  request.fields.emplace_back("content-type", blobs.empty() ? "application/json" : "application/octet-stream");
  if (!blobs.empty())
    request.fields.emplace_back("inference-header-content-length", std::to_string(request.bytes.size()));
  request.bytes += blobs;
  return request;
}

}  // namespace

std::string model_path(const std::string& model, std::string_view rest) {
  return "/v2/models/" + base::percent_encode(model) + std::string(rest);
}

base::Result<InferRequest> make_infer_request(const Remote& remote, const std::string& model,
                                              const std::vector<std::string>& inputs) {
  auto wanted = inputs_of(remote, model);
  if (!wanted) return wanted.error();
  std::vector<GivenInput> given;
  for (const auto& text : inputs) {
    auto input = read_input(text, *wanted);
    if (!input) return input.error();
    // A name that is wrong is said before what is missing for want of it.
    if (auto found = find_input(*wanted, input->name); !found) return found.error();
    given.push_back(std::move(*input));
  }
  auto left = *wanted;
  std::erase_if(left, [&](const auto& w) {
    return std::any_of(given.begin(), given.end(), [&](const auto& g) { return g.name == w.name; });
  });
  if (!left.empty()) left = required(remote, model, std::move(left));
  if (!left.empty()) return missing(model, left, !given.empty());
  if (given.empty() && wanted->empty())
    return base::invalid("model '" + model + "' takes any tensors: give one, as -i x:2,3=random");
  return infer_request(*wanted, given);
}

}  // namespace weir::app
