#include "dialects/openai/tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "marshal/structured_params.h"

namespace weir::openai {
namespace {

using marshal::FieldReader;
using marshal::JsonCursor;
using ToolJson = nlohmann::ordered_json;
using msg::StructuredOutput;

// A name becomes a part of grammars and of the models' own markers, so its letters are restricted.
bool good_name(std::string_view name) {
  constexpr std::string_view kOthers = "_-.:/";
  return !name.empty() && name.size() <= kMaxToolName && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != kOthers.npos;
  });
}

const ToolJson* tool_member(const ToolJson& object, const char* name) {
  auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// The schema of a tool's arguments. They are an object, also where the schema does not say so.
ToolJson arguments_schema(const ToolJson& function) {
  const ToolJson* said = tool_member(function, "parameters");
  if (!said) return {{"type", "object"}, {"additionalProperties", false}};
  for (const char* decides : {"type", "$ref", "anyOf", "oneOf", "allOf"})
    if (said->contains(decides)) return *said;
  ToolJson schema = *said;
  schema["type"] = "object";
  return schema;
}

// A schema's `type`: a name or several.
bool may_be_object(const ToolJson& type) {
  return type.is_array() ? std::find(type.begin(), type.end(), "object") != type.end() : type == "object";
}

ApiError check_tool(const ToolJson& tool, size_t index) {
  const std::string place = "tools[" + std::to_string(index) + ']';
  if (!tool.is_object()) return refuse("tools", place + ": expected an object");
  if (const ToolJson* type = tool_member(tool, "type"); !type || *type != "function")
    return refuse("tools", place + ".type: only \"function\" is offered");
  const ToolJson* function = tool_member(tool, "function");
  if (!function || !function->is_object()) return refuse("tools", place + ".function: expected an object");
  return check_function(*function, place + ".function");
}

// True if the model may call tools, and its answer without a call must fit a schema.
bool calls_or_speaks(const Request& request) {
  const auto& form = request.params.structured;
  return request.tool_choice == ToolChoice::kAuto && form &&
         (form->kind == StructuredOutput::Kind::kJsonObject || form->kind == StructuredOutput::Kind::kJsonSchema);
}

// True for a form of the whole text: one that says how its thoughts end.
bool covers_thoughts(const StructuredOutput& form) {
  if (form.kind != StructuredOutput::Kind::kRegex && form.kind != StructuredOutput::Kind::kGrammar) return false;
  return form.text.find("/think>") != form.text.npos;
}

bool read_choice_word(FieldReader& fields, std::string_view words, Request& request) {
  std::string word;
  if (!fields.text("tool_choice", 32, word)) return false;
  if (word == "auto")
    request.tool_choice = ToolChoice::kAuto;
  else if (word == "required" || word == "any")  // Mistral's word
    request.tool_choice = ToolChoice::kRequired;
  else if (word == "none" && words.find("none") != words.npos)
    request.tool_choice = ToolChoice::kNone;
  else
    return fields.refuse("tool_choice", words);
  return true;
}

// {"type": "function", "function": {"name": …}}
bool read_allowed_tool(FieldReader& fields, Request& request) {
  constexpr std::string_view kWrong =
      "allowed_tools.tools: takes {\"type\": \"function\", \"function\": {\"name\": …}}";
  if (request.allowed_tools.size() == kMaxTools) return fields.refuse("tool_choice", "allowed_tools.tools: too many");
  std::string type, name;
  bool good = fields.json().peek() == JsonCursor::Kind::kObject && fields.json().object([&](std::string_view key) {
    if (key == "type") return fields.text("tool_choice", 32, type);
    const bool named = key == "function" || key == "custom";
    if (!named || fields.json().peek() != JsonCursor::Kind::kObject) return false;
    return fields.json().object([&](std::string_view of_function) {
      return of_function == "name" ? fields.text("tool_choice", kMaxToolName, name) : false;
    });
  });
  if (!good || (type != "function" && type != "custom") || name.empty()) return fields.refuse("tool_choice", kWrong);
  request.allowed_tools.push_back(std::move(name));
  return true;
}

// {"mode": "auto" | "required", "tools": […]}
bool read_allowed_tools(FieldReader& fields, Request& request) {
  constexpr std::string_view kMode = "allowed_tools.mode: takes \"auto\" or \"required\"";
  constexpr std::string_view kTools = "allowed_tools.tools: expected a list of tools";
  bool has_mode = false;
  if (fields.json().peek() != JsonCursor::Kind::kObject)
    return fields.refuse("tool_choice", "allowed_tools: takes mode and tools");
  const bool good = fields.json().object([&](std::string_view key) {
    if (key == "mode") return has_mode = true, read_choice_word(fields, kMode, request);
    if (key != "tools") return fields.refuse("tool_choice", "allowed_tools: takes mode and tools");
    if (fields.json().peek() != JsonCursor::Kind::kArray) return fields.refuse("tool_choice", kTools);
    return fields.json().array([&] { return read_allowed_tool(fields, request); });
  });
  if (!good) return false;
  if (!has_mode) return fields.refuse("tool_choice", kMode);
  return !request.allowed_tools.empty() || fields.refuse("tool_choice", kTools);
}

// {"type": "function", "function": {"name": …}}, or the name beside the type; or those that are allowed.
bool read_chosen_tools(FieldReader& fields, Request& request) {
  std::string type;
  auto name = [&] { return fields.text("tool_choice", kMaxToolName, request.tool_name); };
  bool good = fields.json().object([&](std::string_view key) {
    if (key == "type") return fields.text("tool_choice", 32, type);
    if (key == "name") return name();
    if (key == "allowed_tools") return read_allowed_tools(fields, request);
    const bool named = key == "function" || key == "custom";
    if (!named || fields.json().peek() != JsonCursor::Kind::kObject)
      return fields.refuse("tool_choice", "takes type and function");
    return fields.json().object([&](std::string_view of_function) {
      return of_function == "name" ? name() : fields.refuse("tool_choice", "function: takes name");
    });
  });
  if (!good) return false;
  if (type == "allowed_tools" && request.tool_name.empty() && !request.allowed_tools.empty()) return true;
  if ((type != "function" && type != "custom") || !request.allowed_tools.empty())
    return fields.refuse("tool_choice", "its type is \"function\" or \"allowed_tools\", with a member of that name");
  return !request.tool_name.empty() || fields.refuse("tool_choice", "function.name is missing");
}

}  // namespace

ApiError check_function(const ToolJson& function, const std::string& place) {
  const auto wrong = [&](const std::string& what) { return refuse("tools", place + what); };
  const ToolJson* name = tool_member(function, "name");
  if (!name || !name->is_string() || !good_name(name->get_ref<const std::string&>()))
    return wrong(".name: expected up to " + std::to_string(kMaxToolName) + " letters, digits, and _ - . : /");
  if (const ToolJson* said = tool_member(function, "description"); said && !said->is_string())
    return wrong(".description: expected a string");
  if (const ToolJson* strict = tool_member(function, "strict"); strict && !strict->is_boolean())
    return wrong(".strict: expected true or false");
  if (const ToolJson* schema = tool_member(function, "parameters"); schema && !schema->is_object())
    return wrong(".parameters: expected a JSON schema, an object");
  else if (const ToolJson* kind = schema ? tool_member(*schema, "type") : nullptr; kind && !may_be_object(*kind))
    return wrong(".parameters: arguments are an object, so its type is \"object\"");
  return {};
}

bool read_tool_choice(FieldReader& fields, Request& request) {
  if (fields.none()) return true;
  request.tool_name.clear(), request.allowed_tools.clear();
  if (fields.json().peek() == JsonCursor::Kind::kObject) {
    request.tool_choice = ToolChoice::kRequired;
    return read_chosen_tools(fields, request);
  }
  if (fields.json().peek() != JsonCursor::Kind::kString)
    return fields.unexpected("tool_choice", "\"auto\", \"none\", \"required\" or a tool");
  return read_choice_word(fields, "takes \"auto\", \"none\", \"required\" or a tool", request);
}

ApiError keep_allowed(ToolJson& tools, const Request& request) {
  if (request.allowed_tools.empty()) return {};
  const auto name_of = [](const ToolJson& tool) -> std::string_view {
    const ToolJson* function = tool.is_object() ? tool_member(tool, "function") : nullptr;
    const ToolJson* name = function && function->is_object() ? tool_member(*function, "name") : nullptr;
    return name && name->is_string() ? std::string_view(name->get_ref<const std::string&>()) : std::string_view();
  };
  if (tools.size() > kMaxTools) return {};  // refused by read_tools()
  for (const std::string& name : request.allowed_tools)
    if (std::none_of(tools.begin(), tools.end(), [&](const ToolJson& tool) { return name_of(tool) == name; }))
      return refuse("tool_choice", "tool_choice: no tool has the name '" + name.substr(0, 64) + "'");
  ToolJson kept = ToolJson::array();
  for (ToolJson& tool : tools)
    if (std::find(request.allowed_tools.begin(), request.allowed_tools.end(), name_of(tool)) !=
        request.allowed_tools.end())
      kept.push_back(std::move(tool));
  tools = std::move(kept);
  return {};
}

ApiError read_tools(const ToolJson& tools, Request& request) {
  request.calls_tools = false;
  request.call_form.clear();
  if (tools.size() > kMaxTools) return refuse("tools", "tools: at most " + std::to_string(kMaxTools) + " of them");
  ToolJson callable = ToolJson::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (ApiError bad = check_tool(tools[i], i); !bad.ok()) return bad;
    const ToolJson& function = tools[i]["function"];
    if (request.tool_choice != ToolChoice::kRequired && !calls_or_speaks(request)) continue;
    if (request.tool_name.empty() || function["name"] == request.tool_name)
      callable.push_back({{"name", function["name"]},
                          {"parameters", arguments_schema(function)},
                          {"strict", function.value("strict", ToolJson()) == true}});
  }
  request.calls_tools = !tools.empty() && request.tool_choice != ToolChoice::kNone;
  if (callable.empty()) return {};
  const bool several = request.parallel_tools && request.tool_name.empty();
  const auto& form = request.params.structured;
  const bool strict = form && form->schema == StructuredOutput::Schema::kStrict;
  request.call_form = ToolJson{{"tools", std::move(callable)}, {"parallel", several}, {"strict", strict}}.dump();
  if (calls_or_speaks(request)) {
    const StructuredOutput& said = *form;
    const std::string schema = said.kind == StructuredOutput::Kind::kJsonObject ? R"({"type":"object"})" : said.text;
    request.call_form.replace(request.call_form.size() - 1, 1, ",\"otherwise\":" + schema + '}');
  }
  if (request.call_form.size() <= marshal::kMaxForm) return {};
  return refuse("tools",
                "tools: at most " + std::to_string(marshal::kMaxForm) + " bytes of those that are to be called");
}

ApiError settle_tools(Request& request, const msg::TextSpec& spec) {
  auto& form = request.params.structured;
  const bool either = request.calls_tools && calls_or_speaks(request);
  if (request.calls_tools && form && form->kind != StructuredOutput::Kind::kToolCalls && !either)
    return refuse(form->param,
                  std::string(form->param) + ": not with tools that may be called; use tool_choice \"none\"");
  if (request.tool_choice == ToolChoice::kRequired && request.call_form.empty())
    return refuse("tool_choice", request.calls_tools
                                     ? "tool_choice: no tool has the name '" + request.tool_name.substr(0, 64) + "'"
                                     : std::string("tool_choice: there are no tools to call"));
  // Then it is that server which makes the model call, and holds it to schemas.
  if (spec.remote_chat) return {};
  const bool known = spec.codec->answer_format().tools != msg::ToolFormat::kNone;
  if (request.tool_choice == ToolChoice::kRequired || (either && known)) {
    form.emplace();
    form->kind = StructuredOutput::Kind::kToolCalls, form->text = request.call_form, form->param = "tools";
  } else if (request.calls_tools && !known) {
    return refuse("tools",
                  "tools: how this model writes calls of tools is not known; use tool_choice \"required\" or a named "
                  "tool, or set the model's parameter tool_format");
  }
  if (form && !covers_thoughts(*form)) form->thoughts = request.thoughts;
  return {};
}

msg::AnswerFormat answer_format(const Request& request, const msg::TextSpec& spec) {
  msg::AnswerFormat format = spec.codec->answer_format();
  if (format.tools == msg::ToolFormat::kHarmony) return format;
  format.thinks = format.thinks && request.separate_reasoning;
  if (!request.calls_tools)
    format.tools = msg::ToolFormat::kNone;
  else if (format.tools == msg::ToolFormat::kNone)
    format.tools = msg::ToolFormat::kLlama;  // the format of calls where the model's own is not known
  return format;
}

}  // namespace weir::openai
