#include <algorithm>
#include <array>

#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/translation.h"

namespace weir::openai::anthropic {
namespace {

constexpr std::array<std::string_view, 5> kCarried{"model", "temperature", "top_k", "top_p", "stream"};
constexpr std::array<std::string_view, 8> kRead{"messages", "system",      "max_tokens", "stop_sequences",
                                                "tools",    "tool_choice", "thinking",   "output_config"};
// Notes for an operator, and choices between things that are the same here.
constexpr std::array<std::string_view, 4> kHarmless{"metadata", "service_tier", "inference_geo", "cache_control"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ApiError wrong(std::string what) { return refuse("messages", "messages: " + std::move(what)); }

std::string_view type_of(const OrderedJson& block) {
  const OrderedJson* type = block.is_object() ? member(block, "type") : nullptr;
  const auto* text = type ? type->get_ptr<const std::string*>() : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

ApiError add_image(const OrderedJson& block, OrderedJson& parts) {
  const OrderedJson& source = block.at("source");
  if (type_of(source) != "base64") return wrong("images come in base64; nothing is fetched from elsewhere");
  std::string url = "data:" + source.at("media_type").get<std::string>() + ";base64,";
  url += source.at("data").get_ref<const std::string&>();
  parts.push_back({{"type", "image_url"}, {"image_url", {{"url", std::move(url)}}}});
  return {};
}

// Text and images, as parts of a message.
ApiError add_part(const OrderedJson& block, OrderedJson& parts) {
  const std::string_view type = type_of(block);
  if (type == "text") {
    parts.push_back({{"type", "text"}, {"text", block.at("text")}});
    return {};
  }
  if (type == "image") return add_image(block, parts);
  return wrong("blocks of type '" + std::string(type.substr(0, 32)) + "' are not offered here");
}

// A text alone is content as a string, which every template takes.
OrderedJson content_of(OrderedJson parts) {
  if (parts.size() == 1 && parts[0]["type"] == "text") return std::move(parts[0]["text"]);
  return parts;
}

ApiError content(const OrderedJson& from, OrderedJson& out) {
  if (from.is_string()) return out = from, ApiError{};
  if (!from.is_array()) return wrong("content: expected a text or a list of blocks");
  OrderedJson parts = OrderedJson::array();
  for (const OrderedJson& block : from)
    if (ApiError bad = add_part(block, parts); !bad.ok()) return bad;
  out = content_of(std::move(parts));
  return {};
}

ApiError tool_result(const OrderedJson& block, OrderedJson& list) {
  OrderedJson said{{"role", "tool"}, {"tool_call_id", block.at("tool_use_id")}, {"content", ""}};
  if (const OrderedJson* from = member(block, "content"))
    if (ApiError bad = content(*from, said["content"]); !bad.ok()) return bad;
  list.push_back(std::move(said));
  return {};
}

// A user's message: results of tools are messages of their own, before what the user says.
ApiError user(const OrderedJson& blocks, OrderedJson& list) {
  OrderedJson parts = OrderedJson::array();
  for (const OrderedJson& block : blocks) {
    ApiError bad = type_of(block) == "tool_result" ? tool_result(block, list) : add_part(block, parts);
    if (!bad.ok()) return bad;
  }
  if (!parts.empty()) list.push_back({{"role", "user"}, {"content", content_of(std::move(parts))}});
  return {};
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
      calls.push_back({{"id", block.at("id")},
                       {"type", "function"},
                       {"function", {{"name", block.at("name")}, {"arguments", block.at("input").dump()}}}});
    } else if (type != "redacted_thinking") {
      return wrong("an assistant's blocks are of type text, thinking or tool_use");
    }
  }
  if (spoke || calls.empty()) said["content"] = std::move(text);
  if (!thought.empty()) said["reasoning_content"] = std::move(thought);
  if (!calls.empty()) said["tool_calls"] = std::move(calls);
  list.push_back(std::move(said));
  return {};
}

ApiError message(const OrderedJson& from, OrderedJson& list) {
  if (!from.is_object()) return wrong("expected a list of objects");
  const OrderedJson& role = from.at("role");
  if (role != "user" && role != "assistant") return wrong("a role is user or assistant");
  const OrderedJson& said = from.at("content");
  if (said.is_string()) {
    list.push_back({{"role", role}, {"content", said}});
    return {};
  }
  if (!said.is_array()) return wrong("content: expected a text or a list of blocks");
  return role == "user" ? user(said, list) : assistant(said, list);
}

// A text, or a list of texts.
ApiError system_prompt(const OrderedJson& body, OrderedJson& list) {
  const OrderedJson* from = member(body, "system");
  if (!from || from->empty()) return {};
  std::string text;
  if (from->is_string()) {
    text = from->get<std::string>();
  } else if (from->is_array()) {
    for (const OrderedJson& block : *from)
      text += (text.empty() ? "" : "\n") + block.at("text").get_ref<const std::string&>();
  } else {
    return refuse("system", "system: expected a text or a list of texts");
  }
  list.push_back({{"role", "system"}, {"content", std::move(text)}});
  return {};
}

ApiError conversation(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* from = member(body, "messages");
  if (!from || !from->is_array()) return wrong("expected a list of messages");
  OrderedJson& list = out["messages"] = OrderedJson::array();
  if (ApiError bad = system_prompt(body, list); !bad.ok()) return bad;
  for (const OrderedJson& one : *from)
    if (ApiError bad = message(one, list); !bad.ok()) return bad;
  if (!from->empty() && from->back().value("role", "") == "assistant" && !list.back().contains("tool_calls"))
    out["continue_final_message"] = true;
  return {};
}

ApiError tools(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* from = member(body, "tools");
  if (!from || from->empty()) return {};
  if (!from->is_array()) return refuse("tools", "tools: expected a list");
  OrderedJson& list = out["tools"] = OrderedJson::array();
  for (const OrderedJson& tool : *from) {
    const std::string_view type = type_of(tool);
    if (!type.empty() && type != "custom")
      return refuse("tools", "tools: '" + std::string(type.substr(0, 64)) + "' is a tool of Anthropic's servers");
    OrderedJson function{{"name", tool.at("name")}};
    carry(tool, "description", function, "description");
    carry(tool, "input_schema", function, "parameters");
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
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

ApiError thinking(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* wanted = member(body, "thinking");
  if (!wanted) return {};
  const bool on = type_of(*wanted) != "disabled";
  out["chat_template_kwargs"] = {{"enable_thinking", on}, {"thinking", on}};
  return {};
}

// A schema that the answer follows.
ApiError form(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* config = member(body, "output_config");
  const OrderedJson* wanted = config ? member(*config, "format") : nullptr;
  if (config)
    if (const OrderedJson* effort = member(*config, "effort")) out["reasoning_effort"] = *effort;
  if (!wanted) return {};
  if (type_of(*wanted) != "json_schema")
    return refuse("output_config", "output_config.format: its type is json_schema");
  out["response_format"] = {{"type", "json_schema"},
                            {"json_schema", {{"name", "output"}, {"schema", wanted->at("schema")}}}};
  return {};
}

ApiError translate_messages(const OrderedJson& body, Request& out) {
  OrderedJson translated = OrderedJson::object();
  for (const auto& [name, value] : body.items()) {
    if (among(kCarried, name))
      translated[name] = value;
    else if (!value.is_null() && !among(kRead, name) && !among(kHarmless, name))
      return unknown_member(name);
  }
  carry(body, "max_tokens", translated, "max_tokens");
  carry(body, "stop_sequences", translated, "stop");
  if (ApiError bad = conversation(body, translated); !bad.ok()) return bad;
  for (auto* read : {tools, tool_choice, thinking, form})
    if (ApiError bad = read(body, translated); !bad.ok()) return bad;
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
