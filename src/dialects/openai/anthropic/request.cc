#include <algorithm>
#include <array>

#include "base/encoding.h"
#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/anthropic/blocks.h"
#include "dialects/openai/translation.h"

namespace weir::openai::anthropic {
namespace {

constexpr std::array<RenamedMember, 8> kCarried{{{"model", "model"},
                                                 {"priority", "priority"},
                                                 {"temperature", "temperature"},
                                                 {"top_k", "top_k"},
                                                 {"top_p", "top_p"},
                                                 {"stream", "stream"},
                                                 {"max_tokens", "max_tokens"},
                                                 {"stop_sequences", "stop"}}};
constexpr std::array<RenamedMember, 5> kNames{{{"stop_sequences", "stop"},
                                               {"tools[].input_schema", "tools[].function.parameters"},
                                               {"tools[].", "tools[].function."},
                                               {"output_config.effort", "reasoning_effort"},
                                               {"output_config.format", "response_format"}}};
constexpr std::array<std::string_view, 7> kRead{"messages", "system",        "tools",        "tool_choice",
                                                "thinking", "output_config", "output_format"};
// Notes for an operator, choices between things that are the same here, and what a server may do to a context that
// grows too long.
constexpr std::array<std::string_view, 16> kHarmless{"metadata",
                                                     "service_tier",
                                                     "inference_geo",
                                                     "cache_control",
                                                     "context_management",
                                                     "compaction",
                                                     "diagnostics",
                                                     "speed",
                                                     "betas",
                                                     "fallbacks",
                                                     "user_profile_id",
                                                     "workspace_id",
                                                     "billing_policy",
                                                     "anthropic_beta",
                                                     "anthropic_version",
                                                     "fallback_credit_token"};
constexpr MemberLists kMembers{kCarried, kRead, kHarmless};
// They have Anthropic's servers do something beside asking the model.
constexpr std::array<std::string_view, 3> kServers{"mcp_servers", "container", "thread"};

ApiError tool_result(const OrderedJson& block, OrderedJson& list) {
  OrderedJson said{{"role", "tool"}, {"tool_call_id", block.at("tool_use_id")}, {"content", ""}};
  if (const OrderedJson* from = member(block, "content"))
    if (ApiError bad = read_content(*from, said["content"]); !bad.ok()) return bad;
  list.push_back(std::move(said));
  return {};
}

// A user's message: results of tools are messages of their own, before what the user says.
ApiError user(const OrderedJson& blocks, OrderedJson& list) {
  OrderedJson parts = OrderedJson::array();
  for (const OrderedJson& block : blocks) {
    ApiError bad = type_of(block) == "tool_result" ? tool_result(block, list) : add_block(block, parts);
    if (!bad.ok()) return bad;
  }
  if (!parts.empty()) list.push_back({{"role", "user"}, {"content", content_of(std::move(parts))}});
  return {};
}

// Anthropic's servers ran a tool while the answer was made; the text behind such blocks says what came of it.
bool is_of_server(std::string_view type) {
  return type == "server_tool_use" || type == "mcp_tool_use" || type == "container_upload" ||
         type.ends_with("_tool_result");
}

ApiError assistant(const OrderedJson& blocks, OrderedJson& list) {
  OrderedJson said{{"role", "assistant"}, {"content", nullptr}}, calls = OrderedJson::array();
  std::string text, thought;
  bool spoke = false;
  for (const OrderedJson& block : blocks) {
    const std::string_view type = type_of(block);
    if (type == "text") {
      text += block.at("text").get_ref<const std::string&>(), spoke = true;
    } else if (type == "thinking") {
      thought += block.at("thinking").get_ref<const std::string&>();
    } else if (type == "tool_use") {
      if (!block.at("input").is_object()) return wrong_message("the input of a tool_use is an object");
      calls.push_back({{"id", block.at("id")},
                       {"type", "function"},
                       {"function", {{"name", block.at("name")}, {"arguments", block.at("input").dump()}}}});
    } else if (type != "redacted_thinking" && !is_of_server(type)) {
      return wrong_message("an assistant's blocks are of type text, thinking or tool_use");
    }
  }
  if (spoke || calls.empty()) said["content"] = std::move(text);
  if (!thought.empty()) said["reasoning_content"] = std::move(thought);
  if (!calls.empty()) said["tool_calls"] = std::move(calls);
  list.push_back(std::move(said));
  return {};
}

// Instructions stand at their place among the messages.
ApiError instructions(const OrderedJson& said, OrderedJson& list) {
  std::string text;
  if (!read_text(said, text)) return wrong_message("the content of the role system is a text or a list of texts");
  if (!text.empty()) list.push_back({{"role", "system"}, {"content", std::move(text)}});
  return {};
}

ApiError message(const OrderedJson& from, OrderedJson& list) {
  if (!from.is_object()) return wrong_message("expected an object");
  const OrderedJson& role = from.at("role");
  const OrderedJson& said = from.at("content");
  if (role == "system") return instructions(said, list);
  if (role != "user" && role != "assistant") return wrong_message("a role is user, assistant or system");
  if (said.is_string()) {
    list.push_back({{"role", role}, {"content", said}});
    return {};
  }
  if (!said.is_array()) return wrong_message("content: expected a text or a list of blocks");
  return role == "user" ? user(said, list) : assistant(said, list);
}

// The one message that may be empty: the answer begins as it would without it.
bool is_empty_answer(const OrderedJson& message) {
  return message["role"] == "assistant" && message["content"] == "" && !message.contains("tool_calls") &&
         !message.contains("reasoning_content");
}

// A text, or a list of texts.
ApiError system_prompt(const OrderedJson& body, OrderedJson& list) {
  const OrderedJson* from = member(body, "system");
  if (!from || *from == "" || *from == OrderedJson::array()) return {};
  std::string text;
  if (!read_text(*from, text)) return refuse("system", "system: expected a text or a list of texts");
  list.push_back({{"role", "system"}, {"content", std::move(text)}});
  return {};
}

ApiError conversation(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* from = member(body, "messages");
  if (!from || !from->is_array()) return wrong_message("expected a list of messages");
  OrderedJson& list = out["messages"] = OrderedJson::array();
  if (ApiError bad = system_prompt(body, list); !bad.ok()) return bad;
  for (size_t i = 0; i < from->size(); ++i)
    if (ApiError bad = read_at("messages", i, [&] { return message((*from)[i], list); }); !bad.ok()) return bad;
  if (!list.empty() && is_empty_answer(list.back()))
    list.erase(list.size() - 1);
  else if (!from->empty() && from->back().value("role", "") == "assistant" && !list.back().contains("tool_calls"))
    out["continue_final_message"] = true;
  return {};
}

ApiError add_tool(const OrderedJson& tool, OrderedJson& list) {
  const std::string_view type = type_of(tool);
  OrderedJson schema = OrderedJson::object();
  if (!type.empty() && type != "custom" && !describe_client_tool(type, schema))
    return refuse("tools", "tools: '" + std::string(type.substr(0, 64)) + "' is a tool of Anthropic's servers");
  OrderedJson function{{"name", tool.at("name")}};
  function.update(schema);
  carry(tool, "description", function, "description");
  carry(tool, "input_schema", function, "parameters");
  carry(tool, "strict", function, "strict");
  list.push_back({{"type", "function"}, {"function", std::move(function)}});
  return {};
}

ApiError tools(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* from = member(body, "tools");
  if (!from || from->empty()) return {};
  if (!from->is_array()) return refuse("tools", "tools: expected a list");
  OrderedJson& list = out["tools"] = OrderedJson::array();
  for (size_t i = 0; i < from->size(); ++i)
    if (ApiError bad = read_at("tools", i, [&] { return add_tool((*from)[i], list); }); !bad.ok()) return bad;
  return {};
}

ApiError tool_choice(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* choice = member(body, "tool_choice");
  if (!choice) return {};
  const std::string_view type = type_of(*choice);
  if (type == "auto" || type == "none")
    out["tool_choice"] = type;
  else if (type == "any")
    out["tool_choice"] = "required";
  else if (type == "tool")
    out["tool_choice"] = {{"type", "function"}, {"function", {{"name", choice->at("name")}}}};
  else
    return refuse("tool_choice", "tool_choice: its type is auto, any, tool or none");
  if (choice->value("disable_parallel_tool_use", false)) out["parallel_tool_calls"] = false;
  return {};
}

// With between_tools the model does not think; it may write between its calls how far it has come. A type of a newer
// version leaves it to the model's template whether it thinks.
ApiError thinking(const OrderedJson& body, OrderedJson& out, Request& request) {
  const OrderedJson* wanted = member(body, "thinking");
  if (!wanted) return {};
  const std::string_view type = type_of(*wanted);
  constexpr std::array<std::string_view, 4> kTypes{"enabled", "adaptive", "disabled", "between_tools"};
  const auto slip = [type](std::string_view known) { return base::edit_distance(type, known) == 1; };
  if (type.empty() || std::any_of(kTypes.begin(), kTypes.end(), slip))
    return refuse("thinking", "thinking: its type is enabled, adaptive, disabled or between_tools");
  const bool on = type == "enabled" || type == "adaptive";
  if (!on && type != "disabled" && type != "between_tools") return ignore_member("thinking.type", request), ApiError{};
  out["enable_thinking"] = on;
  return {};
}

// A schema that the answer follows; `output_format` is its older place.
ApiError form(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* config = member(body, "output_config");
  if (config && !config->is_object()) return refuse("output_config", "output_config: expected an object");
  const OrderedJson* wanted = config ? member(*config, "format") : nullptr;
  if (config)
    if (const OrderedJson* effort = member(*config, "effort")) out["reasoning_effort"] = *effort;
  std::string_view name = "output_config.format";
  if (!wanted) wanted = member(body, name = "output_format");
  if (!wanted) return {};
  if (type_of(*wanted) != "json_schema") return refuse(name, std::string(name) + ": its type is json_schema");
  out["response_format"] = {{"type", "json_schema"},
                            {"json_schema", {{"name", "output"}, {"strict", true}, {"schema", wanted->at("schema")}}}};
  return {};
}

// The answer would be another one without it.
ApiError unoffered(std::string_view name, const OrderedJson& value) {
  if (name == "mcp_servers" && !value.empty()) return refuse(name, "mcp_servers: this server calls no others");
  if (name == "container" && value.is_object() && member(value, "skills") && !value["skills"].empty())
    return refuse(name, "container: no skills are offered here");
  if (name != "thread") return {};
  ApiError bad = refuse(name, "thread: no messages are stored here");
  bad.code = kNoThreads;
  return bad;
}

// True if a letter of a name that is read here is missing, wrong or too many. Names of newer versions pass.
bool is_slip(std::string_view name) {
  constexpr size_t kShort = 6;
  const auto near = [&](std::string_view known) { return base::edit_distance(name, known) == 1; };
  const auto near_carried = [&](const RenamedMember& known) { return near(known.name); };
  return name.size() >= kShort &&
         (std::any_of(kCarried.begin(), kCarried.end(), near_carried) || std::any_of(kRead.begin(), kRead.end(), near));
}

// Members that change nothing are of their type all the same.
ApiError check_type(const std::string& name, const OrderedJson& value) {
  const auto expected = [&](const char* what) { return refuse(name, name + ": expected " + what); };
  if (name == "stop_sequences" && !value.is_array()) return expected("a list of texts");
  if ((name == "metadata" || name == "cache_control") && !value.is_object()) return expected("an object");
  if (name == "service_tier" && !value.is_string()) return expected("a text");
  if (name == "container" && !value.is_object() && !value.is_string()) return expected("an object or a text");
  return {};
}

ApiError check_member(const std::string& name, const OrderedJson& value, Request& out) {
  if (value.is_null()) return {};
  if (ApiError bad = check_type(name, value); !bad.ok()) return bad;
  if (kMembers.know(name)) return {};
  if (std::find(kServers.begin(), kServers.end(), name) != kServers.end()) return unoffered(name, value);
  if (is_slip(name)) return kMembers.refuse_unknown(name);
  ignore_member(name, out);
  return {};
}

// Those of output_config that newer versions have pass, too, but a schema behind a misspelled name would be lost.
ApiError check_config(const OrderedJson& body, Request& out) {
  const OrderedJson* config = member(body, "output_config");
  if (!config || !config->is_object()) return {};
  for (const auto& [name, value] : config->items()) {
    if (value.is_null() || name == "format" || name == "effort") continue;
    if (member(value, "schema")) return unknown_member("output_config." + name);
    ignore_member("output_config." + name, out);
  }
  return {};
}

ApiError translate_messages(const OrderedJson& body, Request& out) {
  OrderedJson translated = OrderedJson::object();
  out.names = kNames;
  for (const auto& [name, value] : body.items())
    if (ApiError bad = check_member(name, value, out); !bad.ok()) return bad;
  if (ApiError bad = check_config(body, out); !bad.ok()) return bad;
  kMembers.carry(body, translated);
  if (ApiError bad = conversation(body, translated); !bad.ok()) return bad;
  if (ApiError bad = thinking(body, translated, out); !bad.ok()) return bad;
  for (auto* read : {tools, tool_choice, form})
    if (ApiError bad = read(body, translated); !bad.ok()) return bad;
  out.params.cut_max_tokens = true;
  return read_translated(translated, Kind::kChat, out);
}

}  // namespace

ApiError read_messages(std::string_view body, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    if (!member(object, "max_tokens")) return refuse("max_tokens", "max_tokens: it is missing");
    return translate_messages(object, out);
  });
}

ApiError read_count(std::string_view body, Request& out) {
  return translate(body, [&](const OrderedJson& object) { return translate_messages(object, out); });
}

}  // namespace weir::openai::anthropic
