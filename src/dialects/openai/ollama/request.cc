#include "dialects/openai/ollama/request.h"

#include <algorithm>
#include <array>

#include "dialects/openai/translation.h"

namespace weir::openai::ollama {
namespace {

// These members of `options` have a name in OpenAI's API.
constexpr std::array<RenamedMember, 8> kOptions{{{"temperature", "temperature"},
                                                 {"top_k", "top_k"},
                                                 {"top_p", "top_p"},
                                                 {"min_p", "min_p"},
                                                 {"seed", "seed"},
                                                 {"repeat_penalty", "repetition_penalty"},
                                                 {"presence_penalty", "presence_penalty"},
                                                 {"frequency_penalty", "frequency_penalty"}}};
constexpr std::array<RenamedMember, 5> kNames{{{"options.repeat_penalty", "repetition_penalty"},
                                               {"options.num_predict", "max_tokens"},
                                               {"options.stop", "stop"},
                                               {"format", "response_format"},
                                               {"think", "reasoning_effort"}}};
constexpr std::array<RenamedMember, 1> kPromptNames{{{"prompt", "input"}}};
// How a model is loaded, and how far back a penalty looks.
constexpr std::array<std::string_view, 18> kHints{
    "num_ctx",      "num_batch",        "num_gpu",          "main_gpu",      "low_vram",
    "f16_kv",       "logits_all",       "use_mmap",         "use_mlock",     "num_thread",
    "numa",         "vocab_only",       "num_keep",         "repeat_last_n", "mirostat_eta",
    "mirostat_tau", "penalize_newline", "draft_num_predict"};
// Members that ask for nothing here: a model stays loaded for as long as the repository says, and a context that is
// full ends the answer.
constexpr std::array<std::string_view, 2> kNotes{"keep_alive", "shift"};

bool flag(const OrderedJson& body, std::string_view name, bool otherwise) {
  const OrderedJson* value = member(body, name);
  return value ? value->get<bool>() : otherwise;
}

// As many tokens as the context has where it is below 1.
ApiError length(const OrderedJson& value, OrderedJson& out) {
  if (!value.is_number()) return refuse("options", "options.num_predict must be a whole number");
  const double tokens = value.get<double>();
  if (tokens >= 1) out["max_tokens"] = int64_t(std::min(tokens, marshal::kMaxU32));
  return {};
}

// Those that are "" stop nothing.
void stops(const OrderedJson& value, OrderedJson& out) {
  OrderedJson kept = OrderedJson::array();
  for (const OrderedJson& one : value.is_array() ? value : OrderedJson::array({value}))
    if (one != "") kept.push_back(one);
  if (!kept.empty()) out["stop"] = std::move(kept);
}

// One that is not offered is ignored, as Ollama ignores those that it does not know.
ApiError option(const std::string& name, const OrderedJson& value, OrderedJson& out, Request& request) {
  if (value.is_null()) return {};
  if (std::find(kHints.begin(), kHints.end(), name) != kHints.end())
    return value.is_number() || value.is_boolean()
               ? ApiError{}
               : refuse("options", "options." + name + ": expected a number, true or false");
  if (name == "num_predict") return length(value, out);
  if (name == "stop") return stops(value, out), ApiError();
  if (name == "seed" && value == -1) return {};  // at random
  auto row = std::find_if(kOptions.begin(), kOptions.end(), [&](const RenamedMember& m) { return m.name == name; });
  if (row == kOptions.end())
    ignore_member("options." + name, request);
  else
    out[std::string(row->openai)] = value;
  return {};
}

ApiError options(const OrderedJson& body, OrderedJson& out, Request& request) {
  const OrderedJson* wanted = member(body, "options");
  if (!wanted) return {};
  if (!wanted->is_object()) return refuse("options", "options: expected an object");
  for (const auto& [name, value] : wanted->items())
    if (ApiError bad = option(name, value, out, request); !bad.ok()) return bad;
  return {};
}

// "json", or a schema.
ApiError format(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* wanted = member(body, "format");
  if (!wanted || *wanted == "") return {};
  if (*wanted == "json") {
    out["response_format"] = {{"type", "json_object"}};
  } else if (wanted->is_object()) {
    out["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "format"}, {"schema", *wanted}}}};
  } else {
    return refuse("format", "format: takes \"json\" or a JSON schema");
  }
  return {};
}

// true, false, or how much.
ApiError think(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson* wanted = member(body, "think");
  if (!wanted) return {};
  if (wanted->is_boolean()) {
    out["enable_thinking"] = *wanted;
  } else if (*wanted == "low" || *wanted == "medium" || *wanted == "high" || *wanted == "max") {
    out["reasoning_effort"] = *wanted;
  } else {
    return refuse("think", "think: takes true, false, \"low\", \"medium\", \"high\" or \"max\"");
  }
  return {};
}

// Images are base64 without a type, which their first bytes tell.
std::string_view type_of(std::string_view base64) {
  struct ImageType {
    std::string_view begin, mime;
  };
  constexpr std::array<ImageType, 5> kTypes{{{"/9j/", "image/jpeg"},
                                             {"iVBORw0K", "image/png"},
                                             {"UklGR", "image/webp"},
                                             {"R0lGOD", "image/gif"},
                                             {"Qk", "image/bmp"}}};
  for (const auto& [begin, type] : kTypes)
    if (base64.starts_with(begin)) return type;
  return "image/unknown";
}

ApiError add_images(const OrderedJson& images, OrderedJson& parts) {
  if (!images.is_array()) return refuse("images", "images: expected a list of base64 texts");
  for (const OrderedJson& image : images) {
    const auto* text = image.get_ptr<const std::string*>();
    if (!text) return refuse("images", "images: expected a list of base64 texts");
    parts.push_back(
        {{"type", "image_url"}, {"image_url", {{"url", "data:" + std::string(type_of(*text)) + ";base64," + *text}}}});
  }
  return {};
}

ApiError add_calls(const OrderedJson& calls, OrderedJson& message) {
  if (!calls.is_array()) return refuse("messages", "messages: tool_calls: expected a list");
  OrderedJson& out = message["tool_calls"] = OrderedJson::array();
  for (const OrderedJson& call : calls) {
    OrderedJson function = call.at("function");
    if (auto arguments = function.find("arguments"); arguments != function.end() && !arguments->is_string())
      *arguments = arguments->dump();
    function.erase("index");
    const OrderedJson* id = member(call, "id");
    out.push_back({{"id", id ? *id : OrderedJson("call_" + std::to_string(out.size()))},
                   {"type", "function"},
                   {"function", std::move(function)}});
  }
  return {};
}

std::string lowered(std::string word) {
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return word;
}

ApiError message(const OrderedJson& from, OrderedJson& out) {
  if (!from.is_object()) return refuse("messages", "messages: expected a list of objects");
  const OrderedJson* content = member(from, "content");
  out["role"] = lowered(from.value("role", ""));
  out["content"] = content ? *content : OrderedJson("");
  if (const OrderedJson* images = member(from, "images"); images && !images->empty()) {
    OrderedJson parts = OrderedJson::array();
    if (ApiError bad = add_images(*images, parts); !bad.ok()) return bad;
    parts.push_back({{"type", "text"}, {"text", out["content"]}});
    out["content"] = std::move(parts);
  }
  carry(from, "thinking", out, "reasoning_content");
  carry(from, "tool_name", out, "name");
  carry(from, "tool_call_id", out, "tool_call_id");
  const OrderedJson* calls = member(from, "tool_calls");
  return calls && !calls->empty() ? add_calls(*calls, out) : ApiError{};
}

ApiError messages(const OrderedJson& body, OrderedJson& out) {
  const OrderedJson& from = body.at("messages");
  if (!from.is_array()) return refuse("messages", "messages: expected a list of messages");
  OrderedJson& list = out["messages"] = OrderedJson::array();
  for (size_t i = 0; i < from.size(); ++i)
    if (ApiError bad = read_at("messages", i, [&] { return message(from[i], list.emplace_back()); }); !bad.ok())
      return bad;
  return {};
}

// Ollama's Go client sends both, and the one that it has not been given as "".
std::string model_name(const OrderedJson& body) {
  const OrderedJson* model = member(body, "model");
  if (!model || *model == "") model = member(body, "name");
  return model ? model->get<std::string>() : std::string();
}

void ignore_others(const OrderedJson& body, std::initializer_list<std::string_view> known, Request& out) {
  ignore_unknown(body, {{}, {known.begin(), known.size()}, kNotes}, out);
}

// top_logprobs says nothing without logprobs.
void logprobs(const OrderedJson& body, Kind kind, OrderedJson& out) {
  if (!flag(body, "logprobs", false)) return;
  const OrderedJson* top = member(body, "top_logprobs");
  const OrderedJson alternatives = top ? *top : OrderedJson(0);
  out["logprobs"] = kind == Kind::kChat ? OrderedJson(true) : alternatives;
  if (kind == Kind::kChat) out["top_logprobs"] = alternatives;
}

// True for what Go's time.ParseDuration() reads ("1h30m", "-1ns"), and a number without a unit, which are seconds.
bool is_duration(std::string_view text) {
  constexpr std::array<std::string_view, 8> kUnits{"ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h"};
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return false;
  while (!text.empty()) {
    const size_t number = std::min(text.find_first_not_of("0123456789."), text.size());
    if (number == 0) return false;
    text.remove_prefix(number);
    const auto unit =
        std::find_if(kUnits.begin(), kUnits.end(), [text](std::string_view one) { return text.starts_with(one); });
    if (unit == kUnits.end()) return text.empty();
    text.remove_prefix(unit->size());
  }
  return true;
}

// Members that change nothing are of their type all the same.
ApiError check_notes(const OrderedJson& body) {
  (void)flag(body, "shift", true);
  const OrderedJson* keep = member(body, "keep_alive");
  if (!keep || keep->is_number()) return {};
  const auto* text = keep->get_ptr<const std::string*>();
  return text && is_duration(*text)
             ? ApiError{}
             : refuse("keep_alive", "keep_alive: expected seconds, or a duration such as \"5m\"");
}

// Chats and prompts have these members in common.
ApiError common(const OrderedJson& body, OrderedJson& translated, ChatRequest& out) {
  translated["stream"] = flag(body, "stream", true);
  if (ApiError bad = options(body, translated, out.request); !bad.ok()) return bad;
  if (ApiError bad = format(body, translated); !bad.ok()) return bad;
  logprobs(body, out.kind, translated);
  return think(body, translated);
}

// "5m", a number of seconds, -1; 0 asks that the model be unloaded.
bool asks_to_unload(const OrderedJson& body) {
  const OrderedJson* keep = member(body, "keep_alive");
  return keep && (*keep == 0 || *keep == "0" || *keep == "0s" || *keep == "0m");
}

void only_loads(const OrderedJson& body, ChatRequest& out) {
  out.loads = true, out.unloads = asks_to_unload(body);
  out.request.model = model_name(body);
}

ApiError finish(const OrderedJson& body, OrderedJson translated, ChatRequest& out) {
  if (std::string name = model_name(body); !name.empty()) translated["model"] = std::move(name);
  out.request.fill_context = true;
  out.request.params.cut_max_tokens = true;
  out.request.names = kNames;
  if (flag(body, "truncate", true)) out.request.overlong = Overlong::kTextGoes;
  return read_translated(translated, out.kind, out.request);
}

ApiError translate_chat(const OrderedJson& body, ChatRequest& out) {
  if (ApiError bad = check_notes(body); !bad.ok()) return bad;
  ignore_others(body,
                {"model", "messages", "tools", "tool_choice", "format", "options", "stream", "think", "logprobs",
                 "top_logprobs", "truncate"},
                out.request);
  const OrderedJson* said = member(body, "messages");
  if (!said || (said->is_array() && said->empty())) return only_loads(body, out), ApiError{};
  OrderedJson translated = OrderedJson::object();
  if (ApiError bad = messages(body, translated); !bad.ok()) return bad;
  if (const OrderedJson* tools = member(body, "tools"); tools && *tools != OrderedJson::array())
    translated["tools"] = *tools;
  carry(body, "tool_choice", translated, "tool_choice");
  if (ApiError bad = common(body, translated, out); !bad.ok()) return bad;
  return finish(body, std::move(translated), out);
}

// A prompt goes through the model's chat template, as one message of a user.
ApiError prompt_as_chat(const OrderedJson& body, OrderedJson& translated) {
  OrderedJson& list = translated["messages"] = OrderedJson::array();
  if (const OrderedJson* system = member(body, "system"); system && *system != "")
    list.push_back({{"role", "system"}, {"content", *system}});
  OrderedJson said{{"role", "user"}, {"content", body.at("prompt")}};
  carry(body, "images", said, "images");
  return message(said, list.emplace_back());
}

// The ids of what was said before, which the last answer ended with. A prompt that goes to the model as it is has none.
ApiError read_context(const OrderedJson& body, ChatRequest& out) {
  out.request.token_ids = !flag(body, "raw", false);
  const OrderedJson* ids = member(body, "context");
  if (!ids || *ids == "" || ids->empty()) return {};
  if (out.kind != Kind::kChat) return refuse("context", "context: not with raw or suffix");
  if (!ids->is_array() || ids->size() > kMaxIds) return refuse("context", "context: expected a list of token ids");
  for (const OrderedJson& id : *ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
      return refuse("context", "context: expected a list of token ids");
    out.request.context.push_back(id.get<uint32_t>());
  }
  return {};
}

ApiError translate_generate(const OrderedJson& body, ChatRequest& out) {
  if (ApiError bad = check_notes(body); !bad.ok()) return bad;
  ignore_others(body,
                {"model", "prompt", "suffix", "images", "system", "template", "raw", "format", "options", "stream",
                 "think", "context", "logprobs", "top_logprobs", "truncate"},
                out.request);
  if (const OrderedJson* value = member(body, "template"); value && !value->empty() && *value != "")
    return refuse("template", "template: not offered");
  const OrderedJson* prompt = member(body, "prompt");
  if (!prompt || *prompt == "") return only_loads(body, out), ApiError{};
  OrderedJson translated = OrderedJson::object();
  const OrderedJson* suffix = member(body, "suffix");
  if (flag(body, "raw", false) || (suffix && *suffix != "")) {
    out.kind = Kind::kCompletion;
    translated["prompt"] = prompt->get<std::string>();
    carry(body, "suffix", translated, "suffix");
  } else if (ApiError bad = prompt_as_chat(body, translated); !bad.ok()) {
    return bad;
  }
  if (ApiError bad = read_context(body, out); !bad.ok()) return bad;
  if (ApiError bad = common(body, translated, out); !bad.ok()) return bad;
  return finish(body, std::move(translated), out);
}

// Texts alone; without any there is nothing to embed.
ApiError check_texts(const OrderedJson& body, bool& none) {
  const OrderedJson* input = member(body, "input");
  none = !input || *input == "" || *input == OrderedJson::array();
  if (none || input->is_string()) return {};
  const bool texts = input->is_array() &&
                     std::all_of(input->begin(), input->end(), [](const OrderedJson& one) { return one.is_string(); });
  return texts ? ApiError{} : refuse("input", "input: expected a text or a list of texts");
}

}  // namespace

ApiError read_chat(std::string_view body, ChatRequest& out) {
  return translate(body, [&](const OrderedJson& object) { return translate_chat(object, out); });
}

ApiError read_generate(std::string_view body, ChatRequest& out) {
  return translate(body, [&](const OrderedJson& object) { return translate_generate(object, out); });
}

// A text that is too long is cut, unless `truncate` is false.
ApiError read_embed(std::string_view body, ChatRequest& out) {
  return translate(body, [&](const OrderedJson& object) {
    Request& request = out.request;
    if (ApiError bad = check_notes(object); !bad.ok()) return bad;
    if (ApiError bad = check_texts(object, out.loads); !bad.ok()) return bad;
    if (const OrderedJson* wanted = member(object, "options"); wanted && !wanted->is_object())
      return refuse("options", "options: expected an object");
    ignore_others(object, {"model", "input", "dimensions", "options", "truncate"}, request);
    request.model = model_name(object);
    if (out.loads) return ApiError{};
    OrderedJson translated{{"model", request.model}};
    carry(object, "input", translated, "input");
    carry(object, "dimensions", translated, "dimensions");
    request.embedding_form = EmbeddingForm::kOllama;
    request.unit_length = true;
    request.cut_to_context = flag(object, "truncate", true);
    return read_translated(translated, Kind::kEmbedding, request);
  });
}

ApiError read_embeddings(std::string_view body, Request& out) {
  return translate(body, [&](const OrderedJson& object) {
    if (ApiError bad = check_notes(object); !bad.ok()) return bad;
    ignore_others(object, {"model", "prompt", "options", "truncate"}, out);
    OrderedJson translated{{"model", model_name(object)}, {"input", ""}};
    carry(object, "prompt", translated, "input");
    out.names = kPromptNames;
    out.embedding_form = EmbeddingForm::kOllamaOne;
    out.cut_to_context = true;
    return read_translated(translated, Kind::kEmbedding, out);
  });
}

ApiError read_named(std::string_view body, Named& out) {
  return translate(body, [&](const OrderedJson& object) {
    out.model = model_name(object);
    out.stream = flag(object, "stream", true);
    (void)flag(object, "verbose", false);
    return out.model.empty() ? refuse("model", "model: it is missing") : ApiError{};
  });
}

}  // namespace weir::openai::ollama
