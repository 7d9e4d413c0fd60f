// Tools of a body. A client has more kinds of them than a chat:
//
//   {"type":"function","name","description","parameters","strict"}
//   {"type":"namespace","name","description","tools":[functions and custom tools]}
//   {"type":"custom","name","description","format":{"type":"text"} | {"type":"grammar","syntax","definition"}}
//   {"type":"web_search"}, …                            run by OpenAI's servers, or known to their models alone
// The model sees functions: that of a namespace as namespace__name, a custom one with one text, `input`.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "dialects/openai/responses/input.h"
#include "dialects/openai/tools.h"

namespace weir::openai::responses {
namespace {

// With what may follow behind "_": web_search_preview.
constexpr std::array<std::string_view, 11> kBuiltIn{
    "web_search", "file_search", "computer", "code_interpreter", "image_generation",         "local_shell",
    "shell",      "apply_patch", "mcp",      "tool_search",      "programmatic_tool_calling"};

bool built_in(std::string_view type) {
  return std::any_of(kBuiltIn.begin(), kBuiltIn.end(), [&](std::string_view word) {
    return type.starts_with(word) && (type.size() == word.size() || type[word.size()] == '_');
  });
}

std::string quoted(std::string_view text) { return '\'' + std::string(text.substr(0, 64)) + '\''; }

class ToolList {
 public:
  ToolList(OrderedJson& out, Request& request) : out_(out), request_(request) {}

  // All of a list, whose place in the body is `place`.
  ApiError add_all(const OrderedJson& tools, const std::string& place, std::string_view name_space = {}) {
    for (size_t i = 0; i < tools.size(); ++i)
      if (ApiError bad = add(tools[i], place + '[' + std::to_string(i) + ']', name_space); !bad.ok()) return bad;
    return {};
  }

 private:
  ApiError add(const OrderedJson& tool, const std::string& place, std::string_view name_space) {
    const std::string_view type = tool.is_object() ? text_member(tool, "type") : std::string_view();
    if (type == "function" || type == "custom") return function(tool, place, name_space, type == "custom");
    if (type == "namespace" && name_space.empty()) return unfold(tool, place);
    if (built_in(type) && name_space.empty()) return {};
    return refuse("tools", "tools: those of type " + quoted(type) + " are not offered");
  }

  ApiError unfold(const OrderedJson& tool, const std::string& place) {
    const std::string_view name = text_member(tool, "name");
    const OrderedJson* inside = member(tool, "tools");
    if (name.empty() || !inside || !inside->is_array())
      return refuse("tools", "tools: a namespace has a name and a list of tools");
    return add_all(*inside, place + ".tools", name);
  }

  ApiError function(const OrderedJson& tool, const std::string& place, std::string_view name_space, bool custom) {
    OrderedJson function{{"name", tool.value("name", OrderedJson())}};
    const std::string_view name = text_member(tool, "name");
    if (custom || !name_space.empty()) {
      const std::string shown = shown_name(name_space, name);
      function["name"] = shown;
      request_.client_tools.push_back({shown, std::string(name), std::string(name_space), custom});
    }
    for (std::string_view member : {"description", "parameters", "strict"})
      if (!custom || member == "description") carry(tool, member, function, member);
    if (custom) describe_custom(tool, function);
    if (ApiError bad = check_function(function, place); !bad.ok()) return bad;
    if (out_.size() == kMaxTools) return refuse("tools", "tools: at most " + std::to_string(kMaxTools) + " of them");
    for (const OrderedJson& other : out_)
      if (!request_.client_tools.empty() && other["function"]["name"] == function["name"])
        return refuse("tools", "tools: two of them have the name " + quoted(name));
    out_.push_back({{"type", "function"}, {"function", std::move(function)}});
    return {};
  }

  OrderedJson& out_;
  Request& request_;
};

// How the model knows the tool that a choice names; empty: there is none, or there are several.
std::string find_name(const OrderedJson& choice, const OrderedJson& tools, const Request& request) {
  const std::string_view name = text_member(choice, "name"), name_space = text_member(choice, "namespace");
  const std::string shown = shown_name(name_space, name);
  for (const OrderedJson& tool : tools)
    if (!name.empty() && tool["function"]["name"] == shown) return shown;
  std::string found;
  for (const ClientTool& tool : request.client_tools)
    if (name_space.empty() && tool.name == name) {
      if (!found.empty()) return {};
      found = tool.shown;
    }
  return found;
}

ApiError no_such_tool(const OrderedJson& choice, const char* place) {
  return refuse("tool_choice", std::string(place) + ": no tool, or more than one, has the name " +
                                   quoted(text_member(choice, "name")));
}

ApiError not_here(std::string_view type) {
  return refuse("tool_choice", "tool_choice: this server has no tool " + quoted(type));
}

// {"type":"allowed_tools","mode":"auto"|"required","tools":[{"type":"function","name"}]}: the others are not shown to
// the model.
ApiError allow_tools(const OrderedJson& choice, OrderedJson& out, const Request& request) {
  const std::string_view mode = text_member(choice, "mode");
  if (mode != "auto" && mode != "required")
    return refuse("tool_choice", "tool_choice.mode: takes \"auto\" or \"required\"");
  const OrderedJson* named = member(choice, "tools");
  if (!named || !named->is_array() || named->empty() || named->size() > kMaxTools)
    return refuse("tool_choice", "tool_choice.tools: expected a list of tools, at most " + std::to_string(kMaxTools));
  const OrderedJson offered = out.value("tools", OrderedJson::array());
  std::vector<bool> allowed(offered.size());
  for (const OrderedJson& tool : *named) {
    if (tool.is_object() && built_in(text_member(tool, "type"))) continue;
    const std::string shown = tool.is_object() ? find_name(tool, offered, request) : std::string();
    if (shown.empty()) return no_such_tool(tool.is_object() ? tool : OrderedJson::object(), "tool_choice.tools");
    for (size_t i = 0; i < offered.size(); ++i)
      if (offered[i]["function"]["name"] == shown) allowed[i] = true;
  }
  OrderedJson& list = out["tools"] = OrderedJson::array();
  for (size_t i = 0; i < offered.size(); ++i)
    if (allowed[i]) list.push_back(offered[i]);
  out["tool_choice"] = mode;
  return {};
}

ApiError read_choice(const OrderedJson& body, OrderedJson& out, const Request& request) {
  const OrderedJson* choice = member(body, "tool_choice");
  if (!choice) return {};
  if (!choice->is_object()) return out["tool_choice"] = *choice, ApiError{};
  const std::string_view type = text_member(*choice, "type");
  if (type == "allowed_tools") return allow_tools(*choice, out, request);
  if (built_in(type)) return not_here(type);
  if (type != "function" && type != "custom")
    return refuse("tool_choice", "tool_choice: its type is \"function\", \"custom\" or \"allowed_tools\"");
  const std::string shown = find_name(*choice, out.value("tools", OrderedJson::array()), request);
  if (shown.empty()) return no_such_tool(*choice, "tool_choice");
  out["tool_choice"] = {{"type", "function"}, {"function", {{"name", shown}}}};
  return {};
}

// The text so far of arguments that were cut; nothing: they are no beginning of such a text's.
std::optional<std::string> cut_input(std::string_view arguments) {
  constexpr size_t kLongestEscape = std::string_view("\\ud83d\\ude00").size();
  for (char c : std::string_view(R"({"input":")")) {
    arguments.remove_prefix(std::min(arguments.find_first_not_of(" \n\r\t"), arguments.size()));
    if (arguments.empty()) return "";
    if (arguments[0] != c) return std::nullopt;
    arguments.remove_prefix(1);
  }
  for (size_t cut = 0; cut <= std::min(kLongestEscape, arguments.size()); ++cut) {
    const std::string text = '"' + std::string(arguments.substr(0, arguments.size() - cut)) + '"';
    if (const OrderedJson said = OrderedJson::parse(text, nullptr, false); said.is_string())
      return said.get<std::string>();
  }
  return std::nullopt;
}

// Whether the expression opens each group that it closes, and closes each that it opens. subprojects/grammar ends
// classes and names of groups where this does.
bool groups_close(std::string_view expression) {
  size_t open = 0;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && ++i == expression.size()) return false;
    if (c == '\\') continue;
    if (in_class || c == '[')
      in_class = c != ']';
    else if (c == '(')
      ++open;
    else if (c == ')' && open-- == 0)
      return false;
  }
  return open == 0 && !in_class;
}

// The whole input matches, with anchors of its own or without: ^a|b$ is a or b. One whose groups do not close is left
// as it is, and refused: it would close the group around it.
std::string whole_pattern(const std::string& definition) {
  return groups_close(definition) ? "^(?:" + definition + ")$" : definition;
}

}  // namespace

std::string shown_name(std::string_view name_space, std::string_view name) {
  std::string out(name_space);
  if (!out.empty() && !out.ends_with("__")) out += "__";
  return out += name;
}

void describe_custom(const OrderedJson& tool, OrderedJson& function) {
  OrderedJson input{{"type", "string"}};
  const OrderedJson* format = member(tool, "format");
  if (format && text_member(*format, "type") == "grammar") {
    const std::string syntax(text_member(*format, "syntax")), definition(text_member(*format, "definition"));
    std::string said(text_member(tool, "description"));
    said += (said.empty() ? "" : "\n\n") + ("`input` fits this grammar (" + syntax) + "):\n" + definition;
    function["description"] = std::move(said);
    if (syntax == "regex") {
      input["pattern"] = whole_pattern(definition);
      function["strict"] = true;
    }
  }
  function["parameters"] = {{"type", "object"},
                            {"properties", {{"input", std::move(input)}}},
                            {"required", {"input"}},
                            {"additionalProperties", false}};
}

std::string custom_arguments(std::string_view input) { return OrderedJson{{"input", input}}.dump(); }

std::string custom_input(std::string_view arguments) {
  const OrderedJson written = OrderedJson::parse(arguments, nullptr, false);
  const bool whole = written.is_object() && member(written, "input") && written["input"].is_string();
  if (whole) return written["input"].get<std::string>();
  return (written.is_discarded() ? cut_input(arguments) : std::nullopt).value_or(std::string(arguments));
}

ApiError read_client_tools(const OrderedJson& body, OrderedJson& out, Request& request) {
  const OrderedJson* from = member(body, "tools");
  if (from && !from->is_array()) return refuse("tools", "tools: expected a list");
  if (from && !from->empty()) {
    ToolList list(out["tools"] = OrderedJson::array(), request);
    if (ApiError bad = list.add_all(*from, "tools"); !bad.ok()) return bad;
  }
  return read_choice(body, out, request);
}

}  // namespace weir::openai::responses
