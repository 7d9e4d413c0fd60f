#include "dialects/openai/custom_tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "dialects/openai/responses/input.h"
#include "dialects/openai/tools.h"

namespace weir::openai {
namespace {

using CustomJson = nlohmann::ordered_json;

const CustomJson* object_in(const CustomJson& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_object() ? &*at : nullptr;
}

bool is_text_in(const CustomJson& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string();
}

// As the Responses API has it: {"type":"grammar","syntax","definition"}.
ApiError read_format(const CustomJson& custom, const std::string& place, CustomJson& out) {
  const auto wrong = [&](const char* what) { return refuse("tools", place + ".format" + what); };
  const auto at = custom.find("format");
  if (at == custom.end() || at->is_null()) return {};
  if (!at->is_object() || !is_text_in(*at, "type")) return wrong(": expected an object with a type");
  const std::string type = (*at)["type"];
  if (type == "text") return {};
  if (type != "grammar") return wrong(".type: takes \"text\" or \"grammar\"");
  const CustomJson* grammar = object_in(*at, "grammar");
  if (!grammar || !is_text_in(*grammar, "syntax") || !is_text_in(*grammar, "definition"))
    return wrong(".grammar: takes syntax and definition");
  if ((*grammar)["syntax"] != "regex" && (*grammar)["syntax"] != "lark")
    return wrong(".grammar.syntax: takes \"lark\" or \"regex\"");
  out["format"] = *grammar;
  out["format"]["type"] = "grammar";
  return {};
}

// Whoever calls a tool says its name alone: which kind is meant must be clear.
ApiError check_names(const CustomJson& tools, const Request& request) {
  for (const std::string& name : request.custom_tools) {
    const auto has_it = [&](const CustomJson& tool) {
      const CustomJson* function = tool.is_object() ? object_in(tool, "function") : nullptr;
      const auto at = function ? function->find("name") : CustomJson::const_iterator();
      return function && at != function->end() && *at == name;
    };
    if (std::count_if(tools.begin(), tools.end(), has_it) > 1)
      return refuse("tools", "tools: two of them have the name '" + name.substr(0, 64) + "'");
  }
  return {};
}

}  // namespace

ApiError custom_as_functions(CustomJson& tools, Request& request) {
  request.custom_tools.clear();
  if (tools.size() > kMaxTools) return {};  // refused by read_tools()
  for (size_t i = 0; i < tools.size(); ++i) {
    CustomJson& tool = tools[i];
    if (!tool.is_object() || tool.value("type", CustomJson()) != "custom") continue;
    const std::string place = "tools[" + std::to_string(i) + "].custom";
    const CustomJson* custom = object_in(tool, "custom");
    if (!custom || !is_text_in(*custom, "name")) return refuse("tools", place + ": expected an object with a name");
    CustomJson flat = CustomJson::object(), function{{"name", (*custom)["name"]}};
    if (auto said = custom->find("description"); said != custom->end() && !said->is_null()) {
      if (!said->is_string()) return refuse("tools", place + ".description: expected a string");
      flat["description"] = function["description"] = *said;
    }
    if (ApiError bad = read_format(*custom, place, flat); !bad.ok()) return bad;
    responses::describe_custom(flat, function);
    request.custom_tools.push_back(function["name"]);
    tool = {{"type", "function"}, {"function", std::move(function)}};
  }
  return check_names(tools, request);
}

bool custom_calls_as_functions(CustomJson& calls) {
  for (CustomJson& call : calls) {
    if (call.value("type", CustomJson()) != "custom") continue;
    const CustomJson* custom = object_in(call, "custom");
    if (!custom || !is_text_in(*custom, "name") || !is_text_in(*custom, "input")) return false;
    CustomJson function{{"name", (*custom)["name"]},
                        {"arguments", responses::custom_arguments((*custom)["input"].get<std::string>())}};
    call.erase("custom");
    call["type"] = "function", call["function"] = std::move(function);
  }
  return true;
}

bool is_custom(const Request& request, std::string_view tool) {
  return std::find(request.custom_tools.begin(), request.custom_tools.end(), tool) != request.custom_tools.end();
}

void CustomCalls::hold(const Request& request, std::vector<text::ToolCallPiece>& calls) {
  std::vector<text::ToolCallPiece> out;
  for (text::ToolCallPiece& piece : calls) {
    const bool begins = !piece.name.empty();
    if (begins)
      if (auto last = take()) out.push_back(std::move(*last));
    if (begins && is_custom(request, piece.name))
      open_ = std::move(piece);
    else if (!begins && open_)
      open_->arguments += piece.arguments;
    else
      out.push_back(std::move(piece));
  }
  calls = std::move(out);
}

std::optional<text::ToolCallPiece> CustomCalls::take() {
  if (open_) open_->arguments = responses::custom_input(open_->arguments);
  return std::exchange(open_, std::nullopt);
}

}  // namespace weir::openai
