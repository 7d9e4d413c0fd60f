#include <algorithm>
#include <array>

#include "dialects/openai/responses/responses.h"
#include "dialects/openai/translation.h"

namespace weir::openai::responses {
namespace {

struct Renamed {
  std::string_view from, to;
};
constexpr std::array<Renamed, 9> kCarried{{{"model", "model"},
                                           {"temperature", "temperature"},
                                           {"top_p", "top_p"},
                                           {"stream", "stream"},
                                           {"parallel_tool_calls", "parallel_tool_calls"},
                                           {"max_output_tokens", "max_tokens"},
                                           {"priority", "priority"},
                                           {"chat_template_kwargs", "chat_template_kwargs"},
                                           {"enable_thinking", "enable_thinking"}}};
constexpr std::array<std::string_view, 10> kRead{
    "input",   "instructions", "tools",        "text",  "tool_choice",
    "include", "reasoning",    "top_logprobs", "store", "previous_response_id"};
constexpr std::string_view kLogprobs = "message.output_text.logprobs";
// Notes for an operator, hints, and choices between things that are the same here.
constexpr std::array<std::string_view, 8> kHarmless{"user",
                                                    "metadata",
                                                    "service_tier",
                                                    "safety_identifier",
                                                    "prompt_cache_key",
                                                    "prompt_cache_retention",
                                                    "stream_options",
                                                    "max_tool_calls"};
// Known to clients; what asks for nothing passes.
constexpr std::array<std::string_view, 5> kUnoffered{"conversation", "prompt", "background", "context_management",
                                                     "truncation"};

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ApiError wrong(size_t item, const std::string& what) {
  return refuse("input", "input[" + std::to_string(item) + "]: " + what);
}

std::string_view text_member(const OrderedJson& object, std::string_view name) {
  const OrderedJson* value = member(object, name);
  const auto* text = value ? value->get_ptr<const std::string*>() : nullptr;
  return text ? std::string_view(*text) : std::string_view();
}

// The items of a conversation as messages: calls and thoughts that stand alone become part of one message of the
// assistant.
class Conversation {
 public:
  explicit Conversation(OrderedJson& messages) : messages_(messages) {}

  ApiError add(const OrderedJson& item, size_t at) {
    if (!item.is_object()) return wrong(at, "expected an object");
    const std::string_view type = text_member(item, "type");
    if (type == "message" || (type.empty() && item.contains("role"))) return message(item, at);
    if (type == "function_call") return call(item, at);
    if (type == "function_call_output") return result(item, at);
    if (type == "reasoning") return thoughts(item, at);
    return wrong(at, "items of type '" + std::string(type.substr(0, 64)) + "' are not offered");
  }

 private:
  ApiError message(const OrderedJson& item, size_t at) {
    std::string_view role = text_member(item, "role");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      return wrong(at, "a role is user, assistant, system or developer");
    OrderedJson text;
    if (ApiError bad = content(item.value("content", OrderedJson()), text, at); !bad.ok()) return bad;
    if (role != "assistant" || !open_)
      return messages_.push_back({{"role", role}, {"content", std::move(text)}}), close();
    // Behind thoughts.
    OrderedJson& last = messages_.back();
    if (!last["content"].is_null())
      return messages_.push_back({{"role", role}, {"content", std::move(text)}}), ApiError{};
    last["content"] = std::move(text);
    return {};
  }

  ApiError content(const OrderedJson& from, OrderedJson& out, size_t at) {
    if (from.is_string()) return out = from, ApiError{};
    if (!from.is_array()) return wrong(at, "content: expected a text or a list of parts");
    OrderedJson parts = OrderedJson::array();
    for (const OrderedJson& part : from) {
      const std::string_view type = part.is_object() ? text_member(part, "type") : std::string_view();
      if (type == "input_text" || type == "output_text" || type == "text")
        parts.push_back({{"type", "text"}, {"text", part.at("text")}});
      else if (type == "refusal")
        parts.push_back({{"type", "text"}, {"text", part.at("refusal")}});
      else if (type == "input_image" && member(part, "image_url"))
        parts.push_back({{"type", "image_url"}, {"image_url", {{"url", part.at("image_url")}}}});
      else
        return wrong(at, "parts of type '" + std::string(type.substr(0, 64)) + "' are not offered");
    }
    // A text alone is content as a string, which every template takes.
    const bool alone = parts.size() == 1 && parts[0]["type"] == "text";
    out = alone ? OrderedJson(parts[0]["text"]) : std::move(parts);
    return {};
  }

  ApiError call(const OrderedJson& item, size_t at) {
    if (text_member(item, "name").empty() || text_member(item, "call_id").empty())
      return wrong(at, "a function_call has a name and a call_id");
    OrderedJson& calls = assistant()["tool_calls"];
    if (calls.is_null()) calls = OrderedJson::array();
    calls.push_back({{"id", item.at("call_id")},
                     {"type", "function"},
                     {"function", {{"name", item.at("name")}, {"arguments", item.value("arguments", "")}}}});
    return {};
  }

  ApiError result(const OrderedJson& item, size_t at) {
    if (text_member(item, "call_id").empty()) return wrong(at, "a function_call_output has a call_id");
    OrderedJson said;
    if (ApiError bad = content(item.value("output", OrderedJson()), said, at); !bad.ok()) return bad;
    messages_.push_back({{"role", "tool"}, {"tool_call_id", item.at("call_id")}, {"content", std::move(said)}});
    return close();
  }

  ApiError thoughts(const OrderedJson& item, size_t at) {
    std::string text;
    for (const char* list : {"content", "summary"})
      if (const OrderedJson* parts = member(item, list); parts && text.empty()) {
        if (!parts->is_array()) return wrong(at, std::string(list) + ": expected a list");
        for (const OrderedJson& part : *parts) text += part.value("text", "");
      }
    if (!text.empty()) assistant()["reasoning_content"] = std::move(text);
    return {};
  }

  // The assistant's message that is being put together.
  OrderedJson& assistant() {
    if (!open_ && !messages_.empty() && messages_.back()["role"] == "assistant") open_ = true;
    if (!std::exchange(open_, true)) messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
    return messages_.back();
  }
  ApiError close() { return open_ = false, ApiError{}; }

  OrderedJson& messages_;
  bool open_ = false;
};

ApiError conversation(const OrderedJson& body, OrderedJson& out) {
  OrderedJson& messages = out["messages"] = OrderedJson::array();
  if (const OrderedJson* said = member(body, "instructions")) {
    if (!said->is_string()) return refuse("instructions", "instructions: expected a text");
    messages.push_back({{"role", "system"}, {"content", *said}});
  }
  const OrderedJson* input = member(body, "input");
  if (!input) return refuse("input", "input: it is missing");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return {};
  }
  if (!input->is_array()) return refuse("input", "input: expected a text or a list of items");
  Conversation items(messages);
  for (size_t i = 0; i < input->size(); ++i)
    if (ApiError bad = items.add((*input)[i], i); !bad.ok()) return bad;
  return {};
}

// {"type":"function","name","description","parameters","strict"}
ApiError read_functions(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* from = member(body, "tools");
  if (!from || from->empty()) return {};
  if (!from->is_array()) return refuse("tools", "tools: expected a list");
  OrderedJson& list = out["tools"] = OrderedJson::array();
  for (const OrderedJson& tool : *from) {
    const std::string_view type = tool.is_object() ? text_member(tool, "type") : std::string_view();
    if (type != "function")
      return refuse(
          "tools", "tools: only tools of type \"function\" are offered, not '" + std::string(type.substr(0, 64)) + "'");
    OrderedJson function{{"name", tool.value("name", OrderedJson())}};
    for (std::string_view name : {"description", "parameters", "strict"}) carry(tool, name, function, name);
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return {};
}

// {"type":"allowed_tools","mode":"auto"|"required","tools":[{"type":"function","name"}]}: the others are not shown to
// the model.
ApiError allow_tools(const OrderedJson& choice, OrderedJson& out) {
  const std::string_view mode = text_member(choice, "mode");
  if (mode != "auto" && mode != "required")
    return refuse("tool_choice", "tool_choice.mode: takes \"auto\" or \"required\"");
  const OrderedJson* named = member(choice, "tools");
  if (!named || !named->is_array() || named->empty())
    return refuse("tool_choice", "tool_choice.tools: expected a list of tools");
  const OrderedJson offered = out.value("tools", OrderedJson::array());
  std::vector<bool> allowed(offered.size());
  for (const OrderedJson& tool : *named) {
    const std::string_view name = tool.is_object() ? text_member(tool, "name") : std::string_view();
    bool found = false;
    for (size_t i = 0; i < offered.size(); ++i)
      if (!name.empty() && offered[i]["function"]["name"] == name) allowed[i] = found = true;
    if (!found)
      return refuse("tool_choice", "tool_choice.tools: no tool has the name '" + std::string(name.substr(0, 64)) + "'");
  }
  OrderedJson& list = out["tools"] = OrderedJson::array();
  for (size_t i = 0; i < offered.size(); ++i)
    if (allowed[i]) list.push_back(offered[i]);
  out["tool_choice"] = mode;
  return {};
}

ApiError read_choice(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* choice = member(body, "tool_choice");
  if (!choice) return {};
  if (choice->is_object() && text_member(*choice, "type") == "allowed_tools") return allow_tools(*choice, out);
  if (choice->is_object() && text_member(*choice, "type") != "function")
    return refuse("tool_choice", "tool_choice: its type is \"function\"");
  out["tool_choice"] = *choice;
  return {};
}

// {"format": {"type": "text" | "json_object" | "json_schema", "name", "schema", "strict"}, "verbosity"}
ApiError read_text(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* text = member(body, "text");
  if (!text) return {};
  if (const OrderedJson* verbosity = member(*text, "verbosity"); verbosity && *verbosity != "medium")
    return refuse("text", "text.verbosity: not offered");
  const OrderedJson* format = member(*text, "format");
  if (!format) return {};
  const std::string_view type = text_member(*format, "type");
  if (type == "json_schema")
    out["response_format"] = {{"type", type}, {"json_schema", {{"name", "text"}, {"schema", format->at("schema")}}}};
  else if (type == "json_object")
    out["response_format"] = {{"type", type}};
  else if (type != "text")
    return refuse("text", "text.format: its type is text, json_object or json_schema");
  return {};
}

ApiError read_logprobs(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* include = member(body, "include");
  if (include && !include->is_array()) return refuse("include", "include: expected a list");
  const bool wanted = include && std::find(include->begin(), include->end(), kLogprobs) != include->end();
  const OrderedJson* top = member(body, "top_logprobs");
  if (!wanted && top && *top != 0)
    return refuse("top_logprobs", "top_logprobs: needs include: [\"" + std::string(kLogprobs) + "\"]");
  if (wanted) out["logprobs"] = true;
  if (wanted && top) out["top_logprobs"] = *top;
  return {};
}

ApiError read_reasoning(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* wanted = member(body, "reasoning");
  if (!wanted) return {};
  if (!wanted->is_object()) return refuse("reasoning", "reasoning: expected an object");
  carry(*wanted, "effort", out, "reasoning_effort");
  return {};
}

// Responses are stored where nothing else is said.
ApiError read_store(const OrderedJson& body, const StoredView& stored, Request& out) {
  const OrderedJson* store = member(body, "store");
  const bool can = stored.stored && stored.stored->stores();
  if (store && !store->is_boolean()) return refuse("store", "store: expected true or false");
  if (store && *store == true && !can) return refuse("store", "store: this server stores no responses");
  out.store = can && (!store || *store == true);
  const OrderedJson* previous = member(body, "previous_response_id");
  if (!previous) return {};
  if (!can || !previous->is_string()) return no_previous_response();
  if (stored.records) return out.previous = previous->get<std::string>(), ApiError();
  auto found = stored.stored->find(stored.tenant, previous->get<std::string>(), stored.now);
  if (!found) return no_previous_response();
  out.earlier = std::move(found->turns);
  return {};
}

ApiError check_member(const OrderedJson& value, const std::string& name) {
  if (value.is_null() || among(kRead, name) || among(kHarmless, name)) return {};
  for (const Renamed& row : kCarried)
    if (row.from == name) return {};
  if (name == "truncation" && value == "disabled") return {};
  if (among(kUnoffered, name)) return value == false ? ApiError{} : refuse(name, name + ": not offered");
  return unknown_member(name);
}

// A list or an object without its brackets.
std::string inside(const OrderedJson& value) {
  const std::string text = value.dump();
  return text.substr(1, text.size() - 2);
}

// The response repeats what was asked for.
std::string echo(const OrderedJson& body, bool stored) {
  OrderedJson out{{"instructions", nullptr},
                  {"max_output_tokens", nullptr},
                  {"metadata", OrderedJson::object()},
                  {"parallel_tool_calls", true},
                  {"previous_response_id", nullptr},
                  {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                  {"store", false},
                  {"temperature", nullptr},
                  {"text", {{"format", {{"type", "text"}}}}},
                  {"tool_choice", "auto"},
                  {"tools", OrderedJson::array()},
                  {"top_logprobs", 0},
                  {"top_p", nullptr},
                  {"truncation", "disabled"}};
  for (auto& [name, value] : out.items())
    if (const OrderedJson* said = member(body, name)) value = *said;
  out["store"] = stored;
  return inside(out);
}

}  // namespace

ApiError no_previous_response() {
  ApiError bad = refuse("previous_response_id", "previous_response_id: there is no such response, or no more");
  bad.code = "previous_response_not_found";
  return bad;
}

ApiError read_response(std::string_view body, const StoredView& stored, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    OrderedJson translated = OrderedJson::object();
    for (const auto& [name, value] : object.items())
      if (ApiError bad = check_member(value, name); !bad.ok()) return bad;
    for (const Renamed& row : kCarried) carry(object, row.from, translated, row.to);
    if (ApiError bad = read_store(object, stored, out); !bad.ok()) return bad;
    for (auto* read : {conversation, read_functions, read_choice, read_text, read_logprobs, read_reasoning})
      if (ApiError bad = read(object, translated); !bad.ok()) return bad;
    out.echoed = echo(object, out.store);
    out.instructed = member(object, "instructions") != nullptr;
    if (out.store) {
      OrderedJson turns = translated["messages"];
      if (out.instructed) turns.erase(0);
      out.turns = inside(turns);
    }
    return read_translated(translated, Kind::kChat, out);
  });
}

}  // namespace weir::openai::responses
