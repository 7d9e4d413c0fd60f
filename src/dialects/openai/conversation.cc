// A chat's messages: checked, cut down to what a template may see, and rendered. Images come as data: URLs only: this
// server fetches nothing for a client. Where another server has the chat (TextSpec::remote_chat) they are its
// affair, wherever they are.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/encoding.h"
#include "base/overload.h"
#include "dialects/openai/custom_tools.h"
#include "dialects/openai/functions.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/tools.h"
#include "dialects/openai/turns.h"
#include "text/processor.h"

namespace weir::openai {
namespace {

using json = nlohmann::ordered_json;  // tools reach the model as the client wrote them

constexpr size_t kMaxMessages = 4096, kMaxParts = 256, kMaxImages = 64;
constexpr size_t kMaxVariables = 32, kMaxVariable = 256;
constexpr size_t kMaxAddress = 8192;  // bytes of an image's URL that is no data: URL
// The variables that weir or the model sets; a request may not.
constexpr std::array<std::string_view, 11> kReserved{
    "messages",  "tools",     "documents", "chat_template", "add_generation_prompt", "continue_final_message",
    "bos_token", "eos_token", "unk_token", "pad_token",     "raise_exception"};

std::string place(size_t message) { return "messages[" + std::to_string(message) + "]"; }

ApiError wrong(size_t message, std::string_view what) { return refuse("messages", place(message) + std::string(what)); }

const std::string* text_of(const json& object, const char* key) {
  auto at = object.find(key);
  return at == object.end() ? nullptr : at->get_ptr<const json::string_t*>();
}

// Base64 that may be broken into lines, as `base64` and Python's encodebytes() write it.
std::optional<std::string> decode_lines(std::string_view text) {
  if (text.find_first_of("\r\n") == text.npos) return base::base64_decode(text);
  std::string joined(text);
  std::erase_if(joined, [](char c) { return c == '\r' || c == '\n'; });
  return base::base64_decode(joined);
}

// The JSON of OpenAI's image_url, for another server; nothing: it is none that can go along.
std::optional<std::string> image_for_origin(const json& part, std::string url) {
  const bool data = url.starts_with("data:"), address = url.starts_with("http://") || url.starts_with("https://");
  if (data) std::erase_if(url, [](char c) { return c == '\r' || c == '\n'; });
  const auto plain = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; };
  if (!(data || (address && url.size() <= kMaxAddress)) || !std::all_of(url.begin(), url.end(), plain)) return {};
  std::string out = R"({"url":")" + url + '"';
  const auto inner = part.find("image_url");
  const json& said = inner->is_object() ? *inner : part;
  if (const std::string* detail = text_of(said, "detail"))
    if (*detail == "low" || *detail == "high" || *detail == "auto") out += R"(,"detail":")" + *detail + '"';
  return out += '}';
}

class ConversationReader {
 public:
  ConversationReader(const msg::TextSpec& spec, Conversation& out) : spec_(spec), out_(out) {}

  ApiError read(json& messages) {
    if (messages.empty()) return refuse("messages", "messages: the list is empty");
    if (messages.size() > kMaxMessages)
      return refuse("messages", "messages: at most " + std::to_string(kMaxMessages) + " of them");
    for (at_ = 0; at_ < messages.size(); ++at_)
      if (ApiError bad = message(messages[at_]); !bad.ok()) return bad;
    return {};
  }

 private:
  // Leaves role and content, and what else is not null (name, tool_calls, tool_call_id, …) for the template.
  ApiError message(json& m) {
    if (!m.is_object()) return wrong(at_, ": expected an object");
    const std::string* role = text_of(m, "role");
    if (!role || role->empty() || role->size() > 64) return wrong(at_, ".role: expected a string");
    const bool assistant = *role == "assistant";
    if (*role == "developer" && !spec_.codec->knows_developers()) m["role"] = "system";
    if (!function_turn_as_tools(m)) return wrong(at_, ": the name of a function is a string");
    for (auto member = m.begin(); member != m.end();)
      member = member->is_null() && member.key() != "content" ? m.erase(member) : std::next(member);
    // Templates know thoughts by the older name.
    if (assistant && !m.contains("reasoning_content"))
      if (const std::string* thoughts = text_of(m, "reasoning")) m["reasoning_content"] = std::string(*thoughts);
    auto content = m.find("content");
    const bool calls = m.contains("tool_calls");
    if (calls && !are_calls(m["tool_calls"])) return wrong(at_, ".tool_calls: expected a list of calls");
    if (calls && !custom_calls_as_functions(m["tool_calls"]))
      return wrong(at_, ".tool_calls: a custom call has a name and an input");
    if (content == m.end()) return calls && assistant ? ApiError{} : wrong(at_, ".content: it is missing");
    if (content->is_string() || (content->is_null() && assistant)) return {};
    if (content->is_array()) return parts(*content);
    return wrong(at_, ".content: expected a string or a list of parts");
  }

  static bool are_calls(const json& calls) {
    return calls.is_array() &&
           std::all_of(calls.begin(), calls.end(), [](const json& call) { return call.is_object(); });
  }

  ApiError parts(json& content) {
    if (content.size() > kMaxParts) return wrong(at_, ".content: at most " + std::to_string(kMaxParts) + " parts");
    for (json& p : content)
      if (ApiError bad = part(p); !bad.ok()) return bad;
    return {};
  }

  ApiError part(json& p) {
    if (p.is_string()) {
      p = json{{"type", "text"}, {"text", p.get<std::string>()}};
      return {};
    }
    const std::string* type = p.is_object() ? text_of(p, "type") : nullptr;
    if (!type) return wrong(at_, ".content: a part has a type");
    const bool refusal = *type == "refusal";  // what an assistant said, too
    if (*type == "text" || *type == "input_text" || refusal) {
      const std::string* text = text_of(p, refusal ? "refusal" : "text");
      if (!text) return wrong(at_, ".content: a part of type " + *type + " has a text");
      p = json{{"type", "text"}, {"text", *text}};
      return {};
    }
    if (*type != "image_url")
      return wrong(at_, ".content: parts are of type text or image_url, not " +
                            json(type->substr(0, 32)).dump(-1, ' ', true, json::error_handler_t::replace));
    ApiError bad = image(p);
    if (bad.ok()) p = json{{"type", "image"}};
    return bad;
  }

  // {"image_url": {"url": "data:image/png;base64,…"}}, or the URL itself.
  ApiError image(const json& p) {
    auto at = p.find("image_url");
    const std::string* url = at == p.end()     ? nullptr
                             : at->is_object() ? text_of(*at, "url")
                                               : at->get_ptr<const json::string_t*>();
    if (!url) return wrong(at_, ".content: a part of type image_url has image_url.url");
    if (!spec_.vision)
      return wrong(at_, spec_.remote_chat
                            ? ".content: this model takes no images, as far as is known here (its parameter vision)"
                            : ".content: this model takes no images");
    if (out_.images.size() == kMaxImages)
      return refuse("messages", "messages: at most " + std::to_string(kMaxImages) + " images");
    if (spec_.remote_chat) {
      auto said = image_for_origin(p, *url);
      if (!said) return wrong(at_, ".content: images come as data:, http: or https: URLs");
      out_.images.push_back({base::Bytes::adopt(*std::move(said)), {}, 0, 0, true});
      return {};
    }
    constexpr std::string_view kData = "data:", kBase64 = ";base64,";
    size_t comma = url->find(',');
    size_t coding = comma == url->npos || comma < kBase64.size() ? url->npos : comma + 1 - kBase64.size();
    if (!url->starts_with(kData) || coding == url->npos || url->substr(coding, kBase64.size()) != kBase64)
      return wrong(at_, ".content: images come as data: URLs in base64; nothing is fetched from elsewhere");
    auto bytes = decode_lines(std::string_view(*url).substr(comma + 1));
    if (!bytes) return wrong(at_, ".content: the image's data is not base64");
    std::string mime = url->substr(kData.size(), coding - kData.size());
    out_.images.push_back({base::Bytes::adopt(*std::move(bytes)), mime.substr(0, mime.find(';')), 0, 0});
    return {};
  }

  const msg::TextSpec& spec_;
  Conversation& out_;
  size_t at_ = 0;
};

bool plain(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size() <= kMaxVariable;
  return value.is_boolean() || value.is_number() || value.is_null();
}

ApiError variables(const json& wanted, json& extra) {
  constexpr std::string_view kParam = "chat_template_kwargs";
  auto bad = [&](std::string text) { return refuse(kParam, std::string(kParam) + ": " + std::move(text)); };
  if (wanted.size() > kMaxVariables) return bad("at most " + std::to_string(kMaxVariables) + " of them");
  for (const auto& [key, value] : wanted.items()) {
    if (std::find(kReserved.begin(), kReserved.end(), key) != kReserved.end())
      return bad("'" + key + "' is not a client's to set");
    if (key.size() > 64 || !plain(value)) return bad("values are true, false, numbers and strings of 256 bytes");
    extra[key] = value;
  }
  return {};
}

// Templates know two names for whether to think. The template's own variables count for more.
void thinking(const Request& request, json& extra) {
  if (!request.reasoning_effort.empty()) extra["reasoning_effort"] = request.reasoning_effort;
  std::optional<bool> on = request.enable_thinking;
  if (!on && request.reasoning_effort == "none") on = false;
  if (!on) return;
  extra["enable_thinking"] = *on;
  extra["thinking"] = *on;
}

// The members that go along to the server that has the chat, beside messages and tools. Template variables go as the
// client wrote them, but that whether to think is said in the server's form, where it is known.
void for_origin(const Request& request, msg::TextSpec::RemoteChat elsewhere, json& extra) {
  using Thinking = msg::TextSpec::RemoteChat::Thinking;
  json out = json::object(), variables = json::object();
  if (request.calls_tools && request.tool_choice == ToolChoice::kRequired)
    out["tool_choice"] = request.tool_name.empty()
                             ? json("required")
                             : json{{"type", "function"}, {"function", {{"name", request.tool_name}}}};
  if (request.calls_tools && !request.parallel_tools) out["parallel_tool_calls"] = false;
  if (!request.template_variables.empty()) variables = json::parse(request.template_variables);
  std::optional<bool> thinks = request.enable_thinking;
  for (const char* name : {"thinking", "enable_thinking"})
    if (auto said = variables.find(name); said != variables.end()) {
      if (said->is_boolean()) thinks = said->get<bool>();
      if (elsewhere.thinking == Thinking::kEffort) variables.erase(said);
    }
  std::string effort = request.reasoning_effort;
  if (elsewhere.thinking == Thinking::kVariables) {
    if (effort == "none") thinks = thinks.value_or(false), effort.clear();
    if (thinks) variables["enable_thinking"] = *thinks, variables["thinking"] = *thinks;
  }
  if (effort.empty() && thinks == false && elsewhere.thinking == Thinking::kEffort) effort = "none";
  if (!effort.empty()) out["reasoning_effort"] = effort;
  if (!request.verbosity.empty()) out["verbosity"] = request.verbosity;
  if (!variables.empty()) out["chat_template_kwargs"] = std::move(variables);
  extra["elsewhere"] = std::move(out);
}

ApiError extras(Request& request, const msg::TextSpec& spec, json& extra) {
  thinking(request, extra);
  if (!request.verbosity.empty()) extra["verbosity"] = request.verbosity;
  if (!request.template_variables.empty())
    if (ApiError bad = variables(json::parse(request.template_variables), extra); !bad.ok()) return bad;
  json tools = request.tools.empty() ? functions_as_tools(request) : json::parse(request.tools);
  if (ApiError bad = custom_as_functions(tools, request); !bad.ok()) return bad;
  if (ApiError bad = keep_allowed(tools, request); !bad.ok()) return bad;
  if (ApiError bad = read_tools(tools, request); !bad.ok()) return in_function_names(request, std::move(bad));
  if (request.calls_tools) extra["tools"] = std::move(tools);
  if (spec.remote_chat) for_origin(request, *spec.remote_chat, extra);
  return {};
}

// Where thoughts stand at the end of a prompt. A template that opens and closes them itself has said that there are
// none.
msg::StructuredOutput::Thoughts thoughts_at_end(std::string_view prompt, msg::AnswerFormat format) {
  using Thoughts = msg::StructuredOutput::Thoughts;
  if (!format.thinks) return Thoughts::kNone;
  prompt = prompt.substr(0, prompt.find_last_not_of(" \n\r\t") + 1);
  if (prompt.ends_with("<think>")) return Thoughts::kBegun;
  return prompt.ends_with("</think>") ? Thoughts::kNone : Thoughts::kMayCome;
}

// An assistant's message that only calls tools has no content. Templates see null there, and some tell by it what such
// a message is; others fail on it, and get an empty text instead.
bool fill_contents(json& messages) {
  bool filled = false;
  for (json& m : messages)
    if (auto content = m.find("content"); content != m.end() ? content->is_null() : m.contains("tool_calls"))
      m["content"] = "", filled = true;
  return filled;
}

// Renders the messages as they are; where the template fails on that, or leaves instructions out, in other shapes.
class Rendering {
 public:
  Rendering(const msg::TextCodec& codec, const json& extra, const msg::ChatOptions& options)
      : codec_(codec), extra_(extra), options_(options) {}

  base::Result<std::string> render(json& messages) const {
    auto text = codec_.render_chat(messages, extra_, options_);
    const bool later = has_later_instructions(messages);
    if (failed(text) && fill_contents(messages)) retry(messages, text);
    if (failed(text) && later)
      retry(messages = with_instructions_first(messages), text);
    else if (text && later && lacks_instructions(messages, *text))
      retry(with_instructions_first(messages), text);
    if (failed(text) && codec_.answer_format().tools == msg::ToolFormat::kNone && has_tools(messages))
      retry(as_plain_turns(messages), text);
    if (failed(text))
      if (const json turns = as_alternating_turns(messages); turns.size() < messages.size()) retry(turns, text);
    return text;
  }

 private:
  // An error that names the message is about what the client sent, and no failure of the template.
  static bool failed(const base::Result<std::string>& text) {
    return !text && text.error().code == base::Code::kInvalidArgument && !text.error().text.starts_with("messages[");
  }
  void retry(const json& messages, base::Result<std::string>& text) const {
    auto again = codec_.render_chat(messages, extra_, options_);
    if (again || again.error().code != base::Code::kInvalidArgument) text = std::move(again);
  }

  const msg::TextCodec& codec_;
  const json& extra_;
  const msg::ChatOptions& options_;
};

// The text of the message that the answer goes on with: the last one, if it is by the same role.
std::string last_text(const json& messages, const Request& request) {
  if (messages.empty() || (request.add_generation_prompt && messages.back()["role"] != "assistant")) return {};
  const auto content = messages.back().find("content");
  if (content == messages.back().end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array())
    for (const json& part : *content)
      if (part.is_object() && part.contains("text") && part["text"].is_string()) text += part["text"];
  return text;
}

// The budget was too small, the client has left, or the server has no room.
bool is_not_the_requests(const base::Status& status) {
  return status.code == base::Code::kAborted || status.code == base::Code::kCancelled ||
         base::http_status(status) == 503;
}

// The turns that a stored response ended go before the new ones.
void put_earlier(std::string_view turns, ptrdiff_t place, json& messages) {
  const json earlier = json::parse('[' + std::string(turns) + ']');
  messages.insert(messages.begin() + place, earlier.begin(), earlier.end());
}

ApiError render_checked(Request& request, const msg::TextSpec& spec, size_t beginning, Conversation& out,
                        const msg::TextBudget& budget) {
  if (!spec.codec->has_chat_template())
    return refuse("model", "this model has no chat template: it is not made for chat");
  for (auto [name, text] : {std::pair{"messages", request.messages},
                            {"tools", request.tools},
                            {"functions", request.functions},
                            {"chat_template_kwargs", request.template_variables}})
    if (text::crowded(text))
      return refuse(
          name, std::string(name) + ": an object with more than " + std::to_string(text::kMostMembers) + " members");
  json messages = json::parse(request.messages), extra = json::object();
  if (!request.earlier.empty()) put_earlier(request.earlier.view(), request.instructed ? 1 : 0, messages);
  if (request.overlong != Overlong::kRefused) messages = last_turns(std::move(messages), kMaxMessages);
  if (beginning > 0) messages = beginning_at(messages, beginning);
  if (ApiError bad = ConversationReader(spec, out).read(messages); !bad.ok()) return bad;
  out.beginnings = later_beginnings(messages);
  if (request.echo) out.echo = last_text(messages, request);
  if (ApiError bad = extras(request, spec, extra); !bad.ok()) return bad;
  msg::ChatOptions options{request.add_generation_prompt, request.continue_final_message, {}, budget};
  if (spec.vision)
    for (uint32_t id : {spec.vision->start_id, spec.vision->pad_id, spec.vision->end_id})
      options.image_text += spec.codec->piece(id);
  auto text = Rendering(*spec.codec, extra, options).render(messages);
  budget.keep(text ? text->capacity() : 0);
  if (!text && is_not_the_requests(text.error())) return {text.error(), "messages", {}};
  if (!text) return refuse("messages", "messages: " + text.error().text);
  out.text = *std::move(text);
  request.thoughts = thoughts_at_end(out.text, spec.codec->answer_format());
  return {};
}

}  // namespace

// The members have been checked to be JSON; the library still throws on what it cannot hold, like 1e999.
ApiError render(Request& request, const msg::TextSpec& spec, size_t beginning, Conversation& out,
                const msg::TextBudget& budget) {
  try {
    return render_checked(request, spec, beginning, out, budget);
  } catch (const json::exception&) {
    return refuse("messages", "messages: a number that is out of range");
  }
}

}  // namespace weir::openai
