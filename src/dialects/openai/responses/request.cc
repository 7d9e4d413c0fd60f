#include <algorithm>
#include <array>
#include <charconv>

#include "dialects/openai/conversations/conversations.h"
#include "dialects/openai/responses/input.h"
#include "dialects/openai/responses/responses.h"
#include "dialects/openai/translation.h"

namespace weir::openai::responses {
namespace {

constexpr std::array<RenamedMember, 20> kCarried{{{"model", "model"},
                                                  {"temperature", "temperature"},
                                                  {"top_p", "top_p"},
                                                  {"presence_penalty", "presence_penalty"},
                                                  {"frequency_penalty", "frequency_penalty"},
                                                  {"stream", "stream"},
                                                  {"parallel_tool_calls", "parallel_tool_calls"},
                                                  {"max_output_tokens", "max_tokens"},
                                                  {"priority", "priority"},
                                                  {"chat_template_kwargs", "chat_template_kwargs"},
                                                  {"enable_thinking", "enable_thinking"},
                                                  // vLLM's, beside OpenAI's
                                                  {"top_k", "top_k"},
                                                  {"min_p", "min_p"},
                                                  {"repetition_penalty", "repetition_penalty"},
                                                  {"seed", "seed"},
                                                  {"stop", "stop"},
                                                  {"ignore_eos", "ignore_eos"},
                                                  {"cache_salt", "cache_salt"},
                                                  // llama.cpp's
                                                  {"timings_per_token", "timings_per_token"},
                                                  {"return_progress", "return_progress"}}};
constexpr std::array<std::string_view, 12> kRead{
    "input", "instructions",         "tools",      "text",        "tool_choice", "include", "reasoning", "top_logprobs",
    "store", "previous_response_id", "background", "conversation"};
constexpr std::string_view kLogprobs = "message.output_text.logprobs";
// The other things that an answer may include are of tools that OpenAI's servers run, or of thoughts, which are told as
// they are.
constexpr std::array<std::string_view, 8> kIncluded{kLogprobs,
                                                    "reasoning.encrypted_content",
                                                    "message.input_image.image_url",
                                                    "web_search_call.results",
                                                    "web_search_call.action.sources",
                                                    "file_search_call.results",
                                                    "code_interpreter_call.outputs",
                                                    "computer_call_output.output.image_url"};
// Notes for an operator, hints, and choices between things that are the same here.
constexpr std::array<std::string_view, 10> kHarmless{"user",
                                                     "metadata",
                                                     "client_metadata",
                                                     "service_tier",
                                                     "safety_identifier",
                                                     "prompt_cache_key",
                                                     "prompt_cache_options",
                                                     "prompt_cache_retention",
                                                     "stream_options",
                                                     "max_tool_calls"};
constexpr std::array<std::string_view, 5> kTexts{"user", "service_tier", "safety_identifier", "prompt_cache_key",
                                                 "prompt_cache_retention"};
constexpr std::array<std::string_view, 4> kObjects{"metadata", "client_metadata", "prompt_cache_options",
                                                   "stream_options"};
constexpr std::array<RenamedMember, 5> kNames{{{"max_output_tokens", "max_tokens"},
                                               {"input", "messages"},
                                               {"reasoning.effort", "reasoning_effort"},
                                               {"text.format", "response_format.json_schema"},
                                               {"text.format", "response_format"}}};
constexpr std::array<std::string_view, 2> kText{"format", "verbosity"};
// `mode` says how much its maker's servers do beside asking the model.
constexpr std::array<std::string_view, 5> kReasoning{"effort", "summary", "generate_summary", "context", "mode"};
constexpr MemberLists kMembers{kCarried, kRead, kHarmless};
// Known to clients; what asks for nothing passes.
constexpr std::array<std::string_view, 5> kUnoffered{"prompt", "context_management", "moderation", "truncation",
                                                     "stream_id"};

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// An object with none but these members: a schema behind a misspelled one would be lost.
ApiError check_object(std::string_view name, const OrderedJson& value, std::span<const std::string_view> known) {
  if (!value.is_object()) return refuse(name, std::string(name) + ": expected an object");
  const std::string other = unknown_inside(value, known);
  return other.empty() ? ApiError{} : unknown_member(std::string(name) + '.' + other);
}

// {"format": {"type": "text" | "json_object" | "json_schema", "name", "schema", "strict"}, "verbosity"}
ApiError read_text(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* text = member(body, "text");
  if (!text) return {};
  if (ApiError bad = check_object("text", *text, kText); !bad.ok()) return bad;
  if (const OrderedJson* verbosity = member(*text, "verbosity")) {
    if (*verbosity != "low" && *verbosity != "medium" && *verbosity != "high")
      return refuse("text", "text.verbosity: takes low, medium or high");
    out["verbosity"] = *verbosity;
  }
  const OrderedJson* format = member(*text, "format");
  if (!format) return {};
  const std::string_view type = text_member(*format, "type");
  if (type == "json_schema") {
    const OrderedJson* schema = member(*format, "schema");
    if (!schema || !schema->is_object()) return refuse("text.format", "text.format.schema: expected a JSON schema");
    out["response_format"] = {{"type", type}, {"json_schema", {{"name", "text"}, {"schema", *schema}}}};
    carry(*format, "strict", out["response_format"]["json_schema"], "strict");
  } else if (type == "json_object") {
    out["response_format"] = {{"type", type}};
  } else if (type != "text") {
    return refuse("text", "text.format: its type is text, json_object or json_schema");
  }
  return {};
}

ApiError read_logprobs(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* include = member(body, "include");
  if (include && !include->is_array()) return refuse("include", "include: expected a list");
  if (include)
    for (const OrderedJson& one : *include)
      if (!one.is_string() || !is_in(kIncluded, one.get_ref<const std::string&>()))
        return refuse("include", "include: there is no " + one.dump().substr(0, 64) + " here");
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
  if (ApiError bad = check_object("reasoning", *wanted, kReasoning); !bad.ok()) return bad;
  carry(*wanted, "effort", out, "reasoning_effort");
  return {};
}

// A response that its connection keeps has turns, unless it was a warm-up without input.
bool find_on_connection(const std::string& id, const StoredView& stored, Request& out) {
  if (!stored.connection || !stored.stored) return false;
  if (std::find(stored.connection->begin(), stored.connection->end(), id) == stored.connection->end()) return false;
  auto found = stored.stored->find(stored.tenant, id, stored.now, StoredKind::kConnection);
  if (found) out.earlier = std::move(found->turns);
  return found.has_value();
}

// Responses are stored where nothing else is said.
ApiError read_store(const OrderedJson& body, const StoredView& stored, Request& out) {
  const OrderedJson* store = member(body, "store");
  const bool can = stored.stored && stored.stored->stores();
  if (store && !store->is_boolean()) return refuse("store", "store: expected true or false");
  if (store && *store == true && !can) return refuse("store", "store: this server stores no responses");
  out.store = can && !out.warms_up && (!store || *store == true);
  if (const OrderedJson* background = member(body, "background")) {
    if (!background->is_boolean()) return refuse("background", "background: expected true or false");
    out.background = *background == true;
    if (out.background && !out.store) return refuse("background", "background: the response has to be stored");
  }
  const OrderedJson* previous = member(body, "previous_response_id");
  if (!previous) return {};
  if (previous->is_string() && find_on_connection(previous->get<std::string>(), stored, out)) return {};
  if (!can || !previous->is_string()) return no_previous_response();
  auto found = stored.stored->find(stored.tenant, previous->get<std::string>(), stored.now);
  if (stored.records || !found) return out.previous = previous->get<std::string>(), ApiError();
  if (ApiError bad = check_previous(found); !bad.ok()) return bad;
  out.earlier = std::move(found->turns);
  return {};
}

// A conversation's id, or an object with it.
ApiError read_conversation(const OrderedJson& body, Request& out) {
  const OrderedJson* said = member(body, "conversation");
  if (!said) return {};
  if (member(body, "previous_response_id"))
    return refuse("conversation", "conversation: not with previous_response_id");
  const OrderedJson* id = said->is_object() ? member(*said, "id") : said;
  if (!id || !id->is_string()) return refuse("conversation", "conversation: expected an id, or an object with one");
  out.conversation = id->get<std::string>();
  // A reference stands for an item of a response, which is not the conversation's own.
  const OrderedJson* input = member(body, "input");
  if (input && input->is_array() && std::any_of(input->begin(), input->end(), is_reference))
    return refuse("input", "input: an item_reference is not offered with a conversation");
  return {};
}

// The input, as the conversation is to have it.
void read_new_items(const OrderedJson& body, const StoredView& stored, Request& out) {
  if (out.conversation.empty()) return;
  if (const OrderedJson* input = member(body, "input")) out.new_items = conversations::kept_items(*input, stored.ids);
}

// Members that change nothing are of their type all the same.
ApiError check_type(const OrderedJson& value, const std::string& name) {
  const auto expected = [&](const char* what) { return refuse(name, name + ": expected " + what); };
  if (is_in(kTexts, name) && !value.is_string()) return expected("a text");
  if (is_in(kObjects, name) && !value.is_object()) return expected("an object");
  if (name == "max_tool_calls" && (!value.is_number_integer() || value < 1)) return expected("a whole number >= 1");
  if (name != "metadata") return {};
  const bool texts = std::all_of(value.begin(), value.end(), [](const OrderedJson& one) { return one.is_string(); });
  return texts ? ApiError{} : expected("an object of texts");
}

ApiError check_member(const OrderedJson& value, const std::string& name) {
  if (value.is_null()) return {};
  if (ApiError bad = check_type(value, name); !bad.ok()) return bad;
  if (kMembers.know(name)) return {};
  if (name == "truncation" && (value == "disabled" || value == "auto")) return {};
  if (is_in(kUnoffered, name)) return value == false ? ApiError{} : refuse(name, name + ": not offered");
  return kMembers.refuse_unknown(name);
}

// A list or an object without its brackets.
std::string inside(const OrderedJson& value) {
  const std::string text = value.dump();
  return text.substr(1, text.size() - 2);
}

// An object of defaults, and over them what the request says.
OrderedJson laid_over(OrderedJson defaults, const OrderedJson* said) {
  if (!said) return defaults;
  for (const auto& [name, value] : said->items())
    if (!value.is_null()) defaults[name] = value;
  return defaults;
}

// Each of these has a number in the response: what the request says, or what repeat_defaults() adds.
constexpr std::array<std::string_view, 4> kSampling{"temperature", "top_p", "presence_penalty", "frequency_penalty"};

// Open Responses has these members in each function that a response repeats.
OrderedJson repeated_tools(OrderedJson tools) {
  for (OrderedJson& tool : tools)
    if (tool.is_object() && text_member(tool, "type") == "function")
      for (const char* name : {"description", "parameters", "strict"}) tool.emplace(name, nullptr);
  return tools;
}

// The response repeats what was asked for.
std::string echo(const OrderedJson& body, bool stored, const std::string& conversation) {
  OrderedJson out{{"background", false},
                  {"instructions", nullptr},
                  {"max_output_tokens", nullptr},
                  {"max_tool_calls", nullptr},
                  {"metadata", OrderedJson::object()},
                  {"parallel_tool_calls", true},
                  {"previous_response_id", nullptr},
                  {"prompt_cache_key", nullptr},
                  {"prompt_cache_retention", nullptr},
                  {"reasoning", nullptr},
                  {"safety_identifier", nullptr},
                  {"store", false},
                  {"text", nullptr},
                  {"tool_choice", "auto"},
                  {"tools", OrderedJson::array()},
                  {"top_logprobs", 0},
                  {"truncation", "disabled"}};
  for (auto& [name, value] : out.items())
    if (const OrderedJson* said = member(body, name)) value = *said;
  out["reasoning"] = laid_over({{"effort", nullptr}, {"summary", nullptr}}, member(body, "reasoning"));
  out["text"] = laid_over({{"format", {{"type", "text"}}}}, member(body, "text"));
  if (OrderedJson& format = out["text"]["format"]; format.is_object() && text_member(format, "type") == "json_schema") {
    format.emplace("description", nullptr);
    format.emplace("strict", false);
  }
  out["tools"] = repeated_tools(std::move(out["tools"]));
  for (std::string_view name : kSampling) carry(body, name, out, name);
  carry(body, "user", out, "user");
  if (!conversation.empty()) out["conversation"] = {{"id", conversation}};
  out["service_tier"] = "default";
  out["store"] = stored;
  return inside(out);
}

// Makes a body of a `response.create` event.
ApiError read_event(OrderedJson& event, Request& out) {
  if (text_member(event, "type") != "response.create") return refuse("type", "type: takes response.create");
  const OrderedJson* generate = member(event, "generate");
  if (generate && !generate->is_boolean()) return refuse("generate", "generate: expected true or false");
  if (const OrderedJson* background = member(event, "background"); background && *background != false)
    return refuse("background", "background: not offered on a WebSocket");
  out.warms_up = generate && *generate == false;
  if (out.warms_up && member(event, "conversation"))
    return refuse("conversation", "conversation: not with generate: false");
  if (out.warms_up && !member(event, "input")) event["input"] = OrderedJson::array();
  for (const char* name : {"type", "generate"}) event.erase(name);
  event["stream"] = true;
  return {};
}

}  // namespace

ApiError no_previous_response() {
  ApiError bad = refuse("previous_response_id", "previous_response_id: there is no such response, or no more");
  bad.code = "previous_response_not_found";
  return bad;
}

// A response that was made has turns.
ApiError check_previous(const std::optional<StoredResponse>& found) {
  if (!found) return no_previous_response();
  if (!found->turns.empty()) return {};
  ApiError bad = refuse("previous_response_id", "previous_response_id: that response was not completed");
  bad.code = "previous_response_not_found";
  return bad;
}

void repeat_defaults(const msg::Sampling& defaults, Request& request) {
  const marshal::GenerationParams& said = request.params;
  const auto add = [&](std::string_view name, const std::optional<float>& own, float otherwise) {
    if (own) return;
    ((request.echoed += ",\"") += name) += "\":";
    std::array<char, 32> digits;
    request.echoed.append(digits.data(), std::to_chars(digits.begin(), digits.end(), otherwise).ptr);
  };
  add("temperature", said.temperature, defaults.temperature);
  add("top_p", said.top_p, defaults.top_p);
  add("presence_penalty", said.presence_penalty, defaults.presence_penalty);
  add("frequency_penalty", said.frequency_penalty, defaults.frequency_penalty);
}

ApiError read_response(std::string_view body, const StoredView& stored, Request& out) {
  return translate(body, [&](OrderedJson& object) {
    if (stored.connection)
      if (ApiError bad = read_event(object, out); !bad.ok()) return bad;
    OrderedJson translated = OrderedJson::object();
    out.names = kNames;
    for (const auto& [name, value] : object.items())
      if (ApiError bad = check_member(value, name); !bad.ok()) return bad;
    kMembers.carry(object, translated);
    if (ApiError bad = read_conversation(object, out); !bad.ok()) return bad;
    if (ApiError bad = read_store(object, stored, out); !bad.ok()) return bad;
    if (!out.conversation.empty() && !stored.conversation) return ApiError{};
    if (text_member(object, "truncation") == "auto") out.overlong = Overlong::kTurnsGo;
    if (ApiError bad = read_input(object, stored, translated, out); !bad.ok()) return bad;
    if (!out.references.empty()) return ApiError{};
    read_new_items(object, stored, out);
    if (ApiError bad = read_client_tools(object, translated, out); !bad.ok()) return bad;
    for (auto* read : {read_text, read_logprobs, read_reasoning})
      if (ApiError bad = read(object, translated); !bad.ok()) return bad;
    out.echoed = echo(object, out.store, out.conversation);
    out.instructed = member(object, "instructions") != nullptr;
    if (out.store || stored.connection) {
      OrderedJson turns = translated["messages"];
      if (out.instructed) turns.erase(0);
      out.turns = inside(turns);
    }
    if (out.warms_up) translated["max_tokens"] = 1;
    return read_translated(translated, Kind::kChat, out);
  });
}

}  // namespace weir::openai::responses
