#include "app/commands.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/npy.h"
#include "base/encoding.h"
#include "net/client.h"

namespace weir::app {
namespace {

using nlohmann::json;

Exit fail(const std::string& text) {
  std::fprintf(stderr, "weir: %s\n", text.c_str());
  return Exit::kFailed;
}

std::string model_path(const std::string& model, std::string_view rest) {
  return "/v2/models/" + base::percent_encode(model) + std::string(rest);
}

// The reply's words if it is an error, else nothing.
std::string complaint(const base::Result<net::Client::Reply>& reply) {
  if (!reply) return reply.error().text;
  if (reply->status < 400) return {};
  auto body = json::parse(reply->body, nullptr, false);
  for (const char* key : {"error", "reason"})
    if (body.is_object() && body.contains(key) && body[key].is_string()) return body[key].get<std::string>();
  return "the server answered " + std::to_string(reply->status);
}

base::Result<net::Client::Reply> ask(const Remote& remote, std::string_view method, const std::string& target,
                                     const std::string& body = {}) {
  net::Client::HeaderList fields;
  if (!body.empty()) fields.emplace_back("content-type", "application/json");
  return net::Client(remote.url, remote.timeout).request(method, target, fields, body);
}

Exit load_or_unload(const Remote& remote, const std::string& model, const std::string& verb) {
  auto reply = ask(remote, "POST", "/v2/repository/models/" + base::percent_encode(model) + '/' + verb, "{}");
  if (auto wrong = complaint(reply); !wrong.empty()) return fail(wrong);
  return Exit::kOk;
}

std::string text_of(const json& row, const char* key) {
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
  std::string type = text_of(wanted, "datatype");
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
      if (text_of(wanted, "datatype") != "BYTES")
        return base::invalid("input '" + name + "': '" + value + "' is no JSON");
      data = value;
    }
    if (!data.is_array()) data = json::array({data});
    input->head = {{"datatype", text_of(wanted, "datatype")},
                   {"shape", fit(nested_dims(data), dims_of(wanted["shape"]))},
                   {"data", data}};
  }
  if (input) input->head["name"] = name;
  return input;
}

struct Body {
  std::string bytes;
  size_t json_size = 0;
  bool binary = false;
};

base::Result<Body> infer_body(const json& metadata, const std::vector<std::string>& inputs) {
  json head{{"inputs", json::array()}};
  std::string blobs;
  for (const auto& text : inputs) {
    size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    if (equals == std::string::npos) return base::invalid("input '" + text + "': expected NAME=VALUE");
    const json* wanted = nullptr;
    std::string known;
    for (const auto& row : metadata["inputs"]) {
      known += (known.empty() ? "" : ", ") + text_of(row, "name");
      if (text_of(row, "name") == name) wanted = &row;
    }
    // A model that takes any tensors names none.
    json any{{"datatype", "FP32"}, {"shape", json::array()}};
    if (!wanted && !known.empty()) return base::invalid("the model has no input '" + name + "'; it has " + known);
    auto input = make_input(name, text.substr(equals + 1), wanted ? *wanted : any);
    if (!input) return input.error();
    head["inputs"].push_back(std::move(input->head));
    blobs += input->blob;
  }
  Body body{{}, 0, !blobs.empty()};
  try {
    body.bytes = head.dump();
  } catch (const json::exception&) {
    return base::invalid("inputs are given in UTF-8; other bytes take a file (NAME=@file.npy)");
  }
  body.json_size = body.bytes.size();
  body.bytes += blobs;
  return body;
}

void print_outputs(const json& answer) {
  for (const auto& output : answer["outputs"])
    std::printf("%s %s%s %s\n", text_of(output, "name").c_str(), text_of(output, "datatype").c_str(),
                output.value("shape", json()).dump().c_str(), output.value("data", json()).dump().c_str());
}

}  // namespace

Exit list_models(const Remote& remote) {
  auto reply = ask(remote, "POST", "/v2/repository/index", "{}");
  if (auto wrong = complaint(reply); !wrong.empty()) return fail(wrong);
  auto rows = json::parse(reply->body, nullptr, false);
  if (!rows.is_array()) return fail("the server's index is no JSON list");
  if (remote.output == Output::kJson) {
    std::printf("%s\n", rows.dump(2).c_str());
    return Exit::kOk;
  }
  size_t wide = 5;
  for (const auto& row : rows) wide = std::max(wide, text_of(row, "name").size());
  std::printf("%-*s  %-8s %-12s %s\n", int(wide), "MODEL", "VERSION", "STATE", "REASON");
  for (const auto& row : rows)
    std::printf("%-*s  %-8s %-12s %s\n", int(wide), text_of(row, "name").c_str(), text_of(row, "version").c_str(),
                text_of(row, "state").c_str(), text_of(row, "reason").c_str());
  return Exit::kOk;
}

Exit load_model(const Remote& remote, const std::string& model) { return load_or_unload(remote, model, "load"); }
Exit unload_model(const Remote& remote, const std::string& model) { return load_or_unload(remote, model, "unload"); }

Exit ask_ready(const Remote& remote, const std::string& model) {
  auto reply = ask(remote, "GET", model.empty() ? "/readyz" : model_path(model, "/ready"));
  if (auto wrong = complaint(reply); !wrong.empty()) return fail("not ready: " + wrong);
  std::printf("ready\n");
  return Exit::kOk;
}

Exit infer(const Remote& remote, const std::string& model, const std::vector<std::string>& inputs) {
  auto metadata = ask(remote, "GET", model_path(model, ""));
  if (auto wrong = complaint(metadata); !wrong.empty()) return fail(wrong);
  auto description = json::parse(metadata->body, nullptr, false);
  if (!description.is_object() || !description["inputs"].is_array()) return fail("the model's metadata is no JSON");
  auto body = infer_body(description, inputs);
  if (!body) return fail(body.error().text);
  net::Client::HeaderList fields{{"content-type", body->binary ? "application/octet-stream" : "application/json"}};
  if (body->binary) fields.emplace_back("inference-header-content-length", std::to_string(body->json_size));
  auto reply =
      net::Client(remote.url, remote.timeout).request("POST", model_path(model, "/infer"), fields, body->bytes);
  if (auto wrong = complaint(reply); !wrong.empty()) return fail(wrong);
  auto answer = json::parse(reply->body, nullptr, false);
  if (!answer.is_object() || !answer["outputs"].is_array()) return fail("the server's answer is no JSON");
  if (remote.output == Output::kJson)
    std::printf("%s\n", answer.dump(2).c_str());
  else
    print_outputs(answer);
  return Exit::kOk;
}

}  // namespace weir::app
