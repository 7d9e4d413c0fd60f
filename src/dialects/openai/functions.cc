#include "dialects/openai/functions.h"

#include <nlohmann/json.hpp>

#include "dialects/openai/tools.h"

namespace weir::openai {
namespace {

using marshal::JsonCursor;
using FunctionJson = nlohmann::ordered_json;

// A conversation has no ids of such calls: the function's name stands for one.
FunctionJson call_id_of(const FunctionJson& named) { return "call_" + named.value("name", std::string()); }

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
  if (request.functions.empty()) {
    const bool asks = request.function_call && request.tool_choice != ToolChoice::kNone;
    return asks ? refuse("function_call", "function_call: there are no functions") : ApiError{};
  }
  if (!request.tools.empty()) return refuse("functions", "functions: not with tools");
  request.parallel_tools = false;
  return {};
}

FunctionJson functions_as_tools(const Request& request) {
  FunctionJson tools = FunctionJson::array();
  if (request.functions.empty()) return tools;
  for (FunctionJson& function : FunctionJson::parse(request.functions))
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  return tools;
}

void function_turn_as_tools(FunctionJson& message) {
  if (message["role"] == "function") {
    message["role"] = "tool";
    message["tool_call_id"] = call_id_of(message);
  }
  auto call = message.find("function_call");
  if (call == message.end() || !call->is_object() || message.contains("tool_calls")) return;
  FunctionJson id = call_id_of(*call);
  FunctionJson tool{{"id", std::move(id)}, {"type", "function"}, {"function", std::move(*call)}};
  message.erase("function_call");
  message["tool_calls"] = FunctionJson::array({std::move(tool)});
}

}  // namespace weir::openai
