#include "dialects/openai/functions.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "dialects/openai/tools.h"

namespace weir::openai {
namespace {

using marshal::JsonCursor;
using FunctionJson = nlohmann::ordered_json;

// A conversation has no ids of such calls: the function's name stands for one.
FunctionJson call_id_of(const FunctionJson& named) {
  auto name = named.find("name");
  return "call_" + (name != named.end() && name->is_string() ? name->get<std::string>() : std::string());
}

bool has_bad_name(const FunctionJson& named) {
  auto name = named.find("name");
  return name != named.end() && !name->is_string() && !name->is_null();
}

// `list`: JSON, or empty.
bool is_empty_list(std::string_view list) {
  JsonCursor json(list);
  return !list.empty() && json.array([] { return false; });
}

}  // namespace

bool read_function_call(marshal::FieldReader& fields, Request& request) {
  constexpr std::string_view kName = "function_call", kWords = R"("none", "auto" or {"name": …})";
  if (fields.none()) return true;
  request.function_call = true;
  if (fields.json().peek() == JsonCursor::Kind::kString) {
    std::string word;
    if (!fields.text(kName, 32, word)) return false;
    if (word != "none" && word != "auto") return fields.refuse(kName, "takes " + std::string(kWords));
    request.tool_choice = word == "none" ? ToolChoice::kNone : ToolChoice::kAuto;
    return true;
  }
  if (fields.json().peek() != JsonCursor::Kind::kObject) return fields.unexpected(kName, kWords);
  request.tool_choice = ToolChoice::kRequired;
  const bool good = fields.json().object([&](std::string_view key) {
    return key == "name" ? fields.text(kName, kMaxToolName, request.tool_name) : fields.refuse(kName, "takes name");
  });
  return good && (!request.tool_name.empty() || fields.refuse(kName, "name is missing"));
}

ApiError settle_functions(Request& request) {
  if (!request.tools.empty() && is_empty_list(request.functions)) request.functions = {};
  if (!request.functions.empty() && is_empty_list(request.tools)) request.tools = {};
  if (request.functions.empty()) {
    const bool asks = request.function_call && request.tool_choice != ToolChoice::kNone;
    return asks ? refuse("function_call", "function_call: there are no functions") : ApiError{};
  }
  if (!request.tools.empty()) return refuse("functions", "functions: not with tools");
  request.parallel_tools = false;
  return {};
}

ApiError in_function_names(const Request& request, ApiError error) {
  constexpr std::array<RenamedMember, 3> kFunctionNames{
      {{"functions[]", "tools[].function"}, {"functions", "tools"}, {"function_call", "tool_choice"}}};
  return request.functions.empty() || error.ok() ? error : in_names(kFunctionNames, std::move(error));
}

FunctionJson functions_as_tools(const Request& request) {
  FunctionJson tools = FunctionJson::array();
  if (request.functions.empty()) return tools;
  for (FunctionJson& function : FunctionJson::parse(request.functions))
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  return tools;
}

bool function_turn_as_tools(FunctionJson& message) {
  if (message["role"] == "function") {
    if (has_bad_name(message)) return false;
    message["role"] = "tool";
    message["tool_call_id"] = call_id_of(message);
  }
  auto call = message.find("function_call");
  if (call == message.end() || !call->is_object() || message.contains("tool_calls")) return true;
  if (has_bad_name(*call)) return false;
  FunctionJson id = call_id_of(*call);
  FunctionJson tool{{"id", std::move(id)}, {"type", "function"}, {"function", std::move(*call)}};
  message.erase("function_call");
  message["tool_calls"] = FunctionJson::array({std::move(tool)});
  return true;
}

}  // namespace weir::openai
