#include "dialects/ops/openapi.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "dialects/ops/proto_schema.h"
#include "marshal/generation_params.h"
#include "ops_openapi.h"

namespace weir::ops {
namespace {

namespace pb = google::protobuf;
using Json = nlohmann::ordered_json;

constexpr std::string_view kUsualType = "application/json";

Json reference(std::string_view schema) { return {{"$ref", "#/components/schemas/" + std::string(schema)}}; }

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The properties that marshal/generation_params.h reads, for OpenAI's protocol.
Json generation_properties() {
  Json out = Json::object();
  for (const auto& row : marshal::kGenerationParams) {
    using P = marshal::ParamRow;
    Json& p = out[std::string(row.name)];
    auto number = [&](const char* type) {
      p = {{"type", type}, {"minimum", row.least}, {"maximum", row.most_of(marshal::Protocol::kOpenAi)}};
    };
    if (std::holds_alternative<P::Of<bool>>(row.member))
      p = {{"type", "boolean"}};
    else if (std::holds_alternative<P::Of<std::optional<float>>>(row.member))
      number("number");
    else if (std::holds_alternative<P::Of<std::vector<std::string>>>(row.member))
      p = {{"description", "A string, or an array of them"}};
    else if (std::holds_alternative<P::Of<std::vector<uint32_t>>>(row.member))
      p = {{"type", "array"}, {"items", {{"type", "integer"}}}};
    else if (std::holds_alternative<P::Of<marshal::GenerationParams::Bias>>(row.member))
      p = {{"type", "object"}};
    else if (std::holds_alternative<P::Of<std::optional<msg::StructuredOutput>>>(row.member))
      p = {{"description", "The form of the text"}};
    else
      number("integer");
  }
  return out;
}

// The texts of the dialects, merged.
class Texts {
 public:
  explicit Texts(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      Json one = Json::parse(text);
      for (auto& [name, operation] : one["operations"].items()) {
        if (one.contains("error")) operation["error"] = one["error"];
        operations_[name] = operation;
      }
      if (one.contains("aliases"))
        for (auto& [part, meant] : one["aliases"].items()) aliases_.emplace_back(part, meant.get<std::string>());
      for (auto& [name, schema] : one["schemas"].items()) schemas_[name] = schema;
    }
    for (auto& [name, schema] : schemas_.items()) {
      if (!schema.contains("generationParameters")) continue;
      schema.erase("generationParameters");
      schema["properties"].update(generation_properties());
    }
  }

  // Null where nothing is said.
  const Json* find(const std::string& method, std::string path) const {
    for (auto alias = aliases_.begin();; ++alias) {
      if (auto at = operations_.find(method + " " + path); at != operations_.end()) return &*at;
      if (alias == aliases_.end()) return nullptr;
      if (size_t at = path.find(alias->first); at != path.npos) path.replace(at, alias->first.size(), alias->second);
    }
  }
  Json& schemas() { return schemas_; }

 private:
  Json operations_ = Json::object(), schemas_ = Json::object();
  std::vector<std::pair<std::string, std::string>> aliases_;
};

const pb::MethodDescriptor* method_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == 0 || slash == path.npos) return nullptr;
  std::string name(path.substr(1, slash - 1));
  if (name.find('/') != name.npos) return nullptr;
  return pb::DescriptorPool::generated_pool()->FindMethodByName(name + "." + std::string(path.substr(slash + 1)));
}

class Writer {
 public:
  explicit Writer(const std::vector<std::string>& texts) : texts_(texts) {}

  void add(const wire::Route& route) {
    const std::string method = lower(route.method);
    Json operation = begin(route);
    if (const auto* rpc = method_of(route.pattern))
      describe(*rpc, route, operation);
    else
      describe(said_of(route), route, operation);
    Json& there = paths_[route.pattern][method];
    there = there.is_null() ? std::move(operation) : together(std::move(there), operation);
  }
  Json document(std::string_view version) {
    add_messages();
    return {{"openapi", "3.1.0"},
            {"info",
             {{"title", "weir"},
              {"version", version},
              {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
            {"servers", {{{"url", "/"}}}},
            {"paths", std::move(paths_)},
            {"components",
             {{"schemas", std::move(texts_.schemas())},
              {"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  }

 private:
  Json begin(const wire::Route& route) {
    std::string id = lower(route.method);
    for (char c : route.pattern) {
      const bool word = std::isalnum(static_cast<unsigned char>(c));
      if (word)
        id += c;
      else if (id.back() != '_')
        id += '_';
    }
    while (!ids_.insert(id).second) id += '_';
    Json operation{{"operationId", id}, {"tags", {route.protocol}}};
    operation["x-permission"] = wire::name(route.permission);
    // The empty object makes the key optional: a server without keys asks for none.
    if (route.permission != wire::Permission::kHealth)
      operation["security"] = {Json::object(), {{"key", Json::array()}}};
    for (size_t at = route.pattern.find('{'); at != route.pattern.npos; at = route.pattern.find('{', at + 1)) {
      std::string name = route.pattern.substr(at + 1, route.pattern.find('}', at) - at - 1);
      operation["parameters"].push_back(
          {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
    }
    return operation;
  }

  // A route of one media type has a text of its own: "POST / application/json".
  const Json* said_of(const wire::Route& route) const {
    if (route.content_type.empty()) return texts_.find(route.method, route.pattern);
    return texts_.find(route.method, route.pattern + " " + std::string(route.content_type));
  }
  // Two routes for bodies of two media types are one operation.
  static Json together(Json first, const Json& second) {
    const std::string summary = first["summary"].get<std::string>() + "; " + second["summary"].get<std::string>();
    Json tags = first["tags"];
    tags.insert(tags.end(), second["tags"].begin(), second["tags"].end());
    first.update(second, true);
    first["summary"] = summary, first["tags"] = std::move(tags);
    return first;
  }

  // A content: the name of a schema, or {"<content type>": "<schema>"}.
  Json content(const Json& said) {
    Json types = said.is_object() ? said : Json{{kUsualType, said}};
    Json out = Json::object();
    for (auto& [type, schema] : types.items()) {
      const std::string name = schema.get<std::string>();
      used_.insert(name);
      out[type]["schema"] = reference(name);
    }
    return out;
  }

  void describe(const Json* said, const wire::Route& route, Json& operation) {
    const Json none = Json::object();
    const Json& text = said ? *said : none;
    operation["summary"] = text.value("summary", route.method + " " + route.pattern);
    if (text.contains("description")) operation["description"] = text["description"];
    if (text.contains("query"))
      for (auto& [name, meaning] : text["query"].items())
        operation["parameters"].push_back(
            {{"name", name}, {"in", "query"}, {"description", meaning}, {"schema", {{"type", "string"}}}});
    if (text.contains("request")) operation["requestBody"] = {{"content", content(text["request"])}};
    Json good{{"description", "The answer"}};
    if (text.contains("response")) good["content"] = content(text["response"]);
    if (good.contains("content") && good["content"].empty()) good.erase("content");
    operation["responses"][std::to_string(text.value("status", 200))] = std::move(good);
    Json bad{{"description", "What was wrong, and what was expected"}};
    if (text.contains("error")) bad["content"] = content(text["error"]);
    operation["responses"]["default"] = std::move(bad);
  }

  void describe(const pb::MethodDescriptor& rpc, const wire::Route& route, Json& operation) {
    const bool streams = rpc.client_streaming() || rpc.server_streaming();
    operation["summary"] = rpc.name() + " of " + rpc.service()->full_name() + (streams ? ", a stream" : "");
    operation["description"] = "gRPC, gRPC-Web, Connect, or JSON by HTTP.";
    add_schema(*rpc.input_type(), texts_.schemas());
    add_schema(*rpc.output_type(), texts_.schemas());
    if (route.method == "GET") {
      for (const char* name : {"message", "encoding", "base64", "connect"})
        operation["parameters"].push_back({{"name", name}, {"in", "query"}, {"schema", {{"type", "string"}}}});
    } else {
      const std::string_view type = rpc.client_streaming() ? "application/x-ndjson" : kUsualType;
      operation["requestBody"]["content"][std::string(type)]["schema"] = reference(rpc.input_type()->full_name());
    }
    Json good{{"description", "The answer"}};
    good["content"][rpc.server_streaming() ? "application/x-ndjson" : std::string(kUsualType)]["schema"] =
        reference(rpc.output_type()->full_name());
    if (rpc.server_streaming())
      good["content"]["text/event-stream"]["schema"] = reference(rpc.output_type()->full_name());
    operation["responses"] = {{"200", std::move(good)},
                              {"default", {{"description", "What was wrong, as google.rpc.Status"}}}};
  }

  // Schemas that are messages' names.
  void add_messages() {
    for (const std::string& name : referred(texts_.schemas())) used_.insert(name);
    for (const std::string& name : used_)
      if (const auto* message = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(name))
        add_schema(*message, texts_.schemas());
  }
  static std::set<std::string> referred(const Json& schemas) {
    std::set<std::string> names;
    const std::string before = "#/components/schemas/";
    const Json flat = schemas.flatten();
    for (const auto& [path, value] : flat.items())
      if (path.ends_with("/$ref")) names.insert(value.get<std::string>().substr(before.size()));
    return names;
  }

  Texts texts_;
  Json paths_ = Json::object();
  std::set<std::string> ids_, used_;
};

Json shape_schema(const msg::Shape& shape) {
  Json dims = Json::array();
  for (int64_t dim : shape.dims())
    dims.push_back(dim < 0 ? Json{{"type", "integer"}, {"minimum", 0}} : Json{{"const", dim}});
  return {{"type", "array"}, {"prefixItems", dims}, {"minItems", shape.rank()}, {"maxItems", shape.rank()}};
}

Json tensor_schema(const msg::ModelSpec& spec, const msg::TensorSpec& tensor) {
  return {{"type", "object"},
          {"required", {"name", "datatype", "shape"}},
          {"properties",
           {{"name", {{"const", tensor.name}}},
            {"datatype", {{"const", msg::name(tensor.dtype)}}},
            {"shape", shape_schema(spec.public_shape(tensor))},
            {"parameters", reference("Parameters")},
            {"data", reference("TensorData")}}}};
}

Json tensors_schema(const msg::ModelSpec& spec, const std::vector<msg::TensorSpec>& tensors) {
  Json each = Json::array();
  for (const auto& tensor : tensors) each.push_back(tensor_schema(spec, tensor));
  return {{"type", "array"}, {"items", {{"oneOf", each}}}};
}

}  // namespace

std::string_view own_openapi() { return kOpenApi; }

std::string write_openapi(std::vector<const wire::Route*> routes, const std::vector<std::string>& texts,
                          std::string_view version) {
  std::sort(routes.begin(), routes.end(), [](const auto* a, const auto* b) {
    return std::tie(a->pattern, a->method, a->content_type) < std::tie(b->pattern, b->method, b->content_type);
  });
  Writer writer(texts);
  for (const auto* route : routes) writer.add(*route);
  return writer.document(version).dump();
}

std::string write_openapi(std::string_view document, const msg::ModelSpec& spec) {
  Json out = Json::parse(document), paths = Json::object();
  for (auto& [path, operations] : out["paths"].items()) {
    constexpr std::string_view kModel = "{model}";
    std::string named = path;
    size_t at = named.find(kModel);
    if (at == named.npos || named.find("{version}") != named.npos) continue;
    named.replace(at, kModel.size(), spec.name);
    for (auto& [method, operation] : operations.items()) {
      Json kept = Json::array();
      for (auto& parameter : operation["parameters"])
        if (parameter["name"] != "model") kept.push_back(parameter);
      kept.empty() ? void(operation.erase("parameters")) : void(operation["parameters"] = kept);
    }
    paths[named] = std::move(operations);
  }
  out["info"]["title"] = spec.name;
  out["info"]["version"] = spec.version;
  out["paths"] = std::move(paths);
  Json& schemas = out["components"]["schemas"];
  if (!spec.inputs.empty() && schemas.contains("InferRequest")) {
    schemas["InferRequest"]["properties"]["inputs"] = tensors_schema(spec, spec.inputs);
    schemas["InferResponse"]["properties"]["outputs"] = tensors_schema(spec, spec.outputs);
  }
  return out.dump();
}

}  // namespace weir::ops
