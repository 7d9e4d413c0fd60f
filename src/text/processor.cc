#include "text/processor.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "text/fallback_templates.h"
#include "text/model_json.h"
#include "text/rendering.h"
#include "tokenizers/decode_stream.h"

namespace weir::text {

namespace {

using Json = nlohmann::ordered_json;

std::string place(size_t message, std::string_view field) {
  return "messages[" + std::to_string(message) + "]" + std::string(field);
}

// A token of tokenizer_config.json: its text, or an object that has it as `content`.
base::Status read_token(const nlohmann::json& config, const char* name, std::string& out) {
  auto found = config.find(name);
  if (found == config.end() || found->is_null()) return {};
  const nlohmann::json* text = &*found;
  if (text->is_object() && text->contains("content")) text = &(*text)["content"];
  if (!text->is_string()) return base::invalid(std::string("tokenizer_config.json: ") + name + " is not a token");
  out = text->get<std::string>();
  return {};
}

// A member that is a text; empty: there is none.
std::string_view text_of(const nlohmann::json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get_ref<const std::string&>() : std::string_view();
}

// Sources of chat templates.
struct Templates {
  std::string usual, tool_use;  // empty: there is none; the other one is for conversations with tools, too
  const std::string& of_tools() const { return tool_use.empty() ? usual : tool_use; }
};

// `chat_template` is a text, or a list of named ones. As in Hugging Face's transformers `tool_use` is taken where tools
// are given, and `default` otherwise.
base::Status read_templates(const nlohmann::json& config, Templates& out) {
  auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return out.usual = found->get<std::string>(), base::Status();
  bool usual = false;
  if (found->is_array())
    for (const auto& entry : *found) {
      if (!entry.is_object() || !entry.contains("template") || !entry["template"].is_string()) continue;
      const std::string_view name = text_of(entry, "name"), source = text_of(entry, "template");
      if (name == "default" && !usual) usual = true, out.usual = source;
      if (name == "tool_use") out.tool_use = source;
    }
  if (usual) return {};
  return base::invalid("tokenizer_config.json: chat_template is neither a text nor a list with a default");
}

// Without a tokenizer_config.json the special tokens are found by the names that models usually give them.
void guess_tokens(const tokenizers::Tokenizer& tokenizer, Processor& out) {
  auto first = [&](std::string& token, auto... names) {
    auto take = [&](std::string_view name) {
      auto id = tokenizer.id(name);
      if (token.empty() && id && tokenizer.special(*id)) token = name;
    };
    (take(names), ...);
  };
  first(out.bos, "<|begin_of_text|>", "<s>", "<bos>");
  first(out.eos, "<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "</s>", "<eos>", "<|endoftext|>");
  first(out.unk, "<unk>");
  first(out.pad, "<pad>", "<|pad|>");
}

// For these classes Hugging Face's transformers takes add_bos_token (true unless it is given) and add_eos_token (false)
// in place of the post_processor; also for a file that names no class, where it gives them.
bool decides_markers(const nlohmann::json& config) {
  const std::string_view name = text_of(config, "tokenizer_class");
  if (name.empty()) return config.contains("add_bos_token") || config.contains("add_eos_token");
  for (std::string_view family : {"Llama", "CodeLlama", "Gemma", "Cohere"})
    if (name.starts_with(family)) return true;
  return false;
}

base::Status read_marker(const nlohmann::json& config, const char* flag, bool usual, const std::string& token,
                         const Processor& out, std::vector<uint32_t>& ids) {
  auto given = config.find(flag);
  bool add = usual;
  if (given != config.end() && !given->is_null()) {
    if (!given->is_boolean())
      return base::invalid(std::string("tokenizer_config.json: ") + flag + " is neither true nor false");
    add = given->get<bool>();
  }
  if (!add || token.empty()) return {};
  auto id = out.tokenizer->id(token);
  if (!id)
    return base::invalid(std::string("tokenizer_config.json: ") + flag + ": the vocabulary has no '" + token + "'");
  ids.push_back(*id);
  return {};
}

base::Status read_markers(const nlohmann::json& config, Processor& out) {
  if (!decides_markers(config)) return {};
  Processor::Markers markers;
  auto status = read_marker(config, "add_bos_token", true, out.bos, out, markers.before);
  if (status.ok()) status = read_marker(config, "add_eos_token", false, out.eos, out, markers.after);
  if (status.ok()) out.markers = std::move(markers);
  return status;
}

base::Status read_config(std::string_view text, Processor& out, Templates& templates) {
  auto parsed = parse_model_json(text, "tokenizer_config.json");
  if (!parsed) return parsed.error();
  const nlohmann::json& config = *parsed;
  if (!config.is_object()) return base::invalid("tokenizer_config.json: is not a JSON object");
  for (auto [name, token] : {std::pair{"bos_token", &out.bos}, std::pair{"eos_token", &out.eos},
                             std::pair{"unk_token", &out.unk}, std::pair{"pad_token", &out.pad}})
    if (auto status = read_token(config, name, *token); !status.ok()) return status;
  if (auto status = read_markers(config, out); !status.ok()) return status;
  return templates.usual.empty() ? read_templates(config, templates) : base::Status();
}

// A role is named in quotes.
bool names_developers(std::string_view source) {
  return source.find("'developer'") != source.npos || source.find("\"developer\"") != source.npos;
}

// How answers are read, and what forms they can be given.
base::Status set_format(const Templates& templates, std::string_view tool_format, Processor& out) {
  ToolStyle style = tool_style_of(templates.of_tools());
  if (!tool_format.empty() && tool_format != "auto") {
    auto named = tool_format_named(tool_format);
    if (!named)
      return base::invalid("parameter 'tool_format' is \"" + std::string(tool_format) + "\": auto, " +
                           tool_format_names() + " is expected");
    if (*named != style.format) style = {*named};
  }
  const bool thoughtful = thinks(templates.usual) || thinks(templates.tool_use);
  out.format = {style.format, thoughtful || style.format == msg::ToolFormat::kHarmony};
  out.grammars = std::make_shared<GrammarCache>(out.tokenizer, style);
  return {};
}

base::Status join_parts(Json& message, size_t number, const msg::ChatOptions& options) {
  std::string text;
  const Json parts = std::move(message["content"]);
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    std::string at = place(number, ".content[" + std::to_string(i) + "]");
    std::string type = part.is_object() && part.contains("type") && part["type"].is_string()
                           ? part["type"].get<std::string>()
                           : std::string();
    const char* field = type == "refusal" ? "refusal" : "text";
    if (type == "text" || type == "refusal" || type == "input_text" || type == "output_text") {
      if (!part.contains(field) || !part[field].is_string())
        return base::invalid(at + "." + field + " is not a string");
      text += part[field].get_ref<const std::string&>();
    } else if (type == "image" || type == "image_url" || type == "input_image") {
      if (options.image_text.empty()) return base::invalid(at + " is an image, which this model does not take");
      text += options.image_text;
    } else {
      return base::invalid(at + ".type is not a type of content that this model takes: text" +
                           (options.image_text.empty() ? "" : ", image_url"));
    }
  }
  message["content"] = std::move(text);
  return {};
}

std::string_view trimmed(std::string_view text, bool right) {
  constexpr std::string_view kBlanks = " \t\n\r\v\f";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (right) text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  return text;
}

base::Status check_arguments(const std::string& text, std::string_view at) {
  std::string where = std::string(at) + ".function.arguments: ";
  if (text.size() > kMostArguments)
    return base::invalid(where + std::to_string(text.size()) + " bytes; expected at most " +
                         std::to_string(kMostArguments));
  if (crowded(text, kMostMembers, kDeepestArguments))
    return base::invalid(where + "an object with more than " + std::to_string(kMostMembers) +
                         " members, or nested deeper than " + std::to_string(kDeepestArguments) + " levels");
  return {};
}

// Clients send the arguments of a tool call as JSON text; templates take them as a value.
base::Status parse_arguments(Json& message, size_t number) {
  auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return {};
  for (size_t i = 0; i < calls->size(); ++i) {
    auto& call = (*calls)[i];
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_string()) continue;
    const auto& text = arguments->get_ref<const std::string&>();
    const std::string_view inner = trimmed(text, false);
    if (inner.empty()) *arguments = Json::object();  // clients write a call without arguments so, too
    if (!inner.starts_with('{')) continue;           // no object: it stays a text
    if (auto s = check_arguments(text, place(number, ".tool_calls[" + std::to_string(i) + "]")); !s.ok()) return s;
    auto parsed = Json::parse(text, nullptr, false);
    if (parsed.is_object()) *arguments = std::move(parsed);
  }
  return {};
}

base::Status prepare(Json& out, const msg::ChatOptions& options) {
  if (!out.is_array() || out.empty()) return base::invalid("messages: expected a list with at least one message");
  for (size_t i = 0; i < out.size(); ++i) {
    Json& message = out[i];
    if (!message.is_object()) return base::invalid(place(i, " is not an object"));
    if (!message.contains("role") || !message["role"].is_string())
      return base::invalid(place(i, ".role is not a string"));
    if (!message.contains("content")) message["content"] = nullptr;
    const Json& content = message["content"];
    if (content.is_array()) {
      if (auto status = join_parts(message, i, options); !status.ok()) return status;
    } else if (!content.is_string() && !content.is_null()) {
      return base::invalid(place(i, ".content is neither a string nor a list of parts"));
    }
    if (auto status = parse_arguments(message, i); !status.ok()) return status;
  }
  return {};
}

// Where `word` occurs last in `text`; npos: nowhere. std::string::rfind() takes the product of both lengths for texts
// that repeat themselves; memmem(3) is linear.
size_t last_of(std::string_view text, std::string_view word) {
  std::string backwards(text.rbegin(), text.rend()), wanted(word.rbegin(), word.rend());
  const void* found = memmem(backwards.data(), backwards.size(), wanted.data(), wanted.size());
  if (!found) return text.npos;
  return text.size() - word.size() - size_t(static_cast<const char*>(found) - backwards.data());
}

// Cuts what the template puts behind the last message, so that the model continues that message.
base::Status cut_after_final_message(std::string& prompt, std::string_view content) {
  std::string_view inner = trimmed(content, true), tail = trimmed(content, false);
  size_t at = inner.empty() ? prompt.npos : last_of(prompt, inner);
  if (at == prompt.npos)
    return base::invalid("continue_final_message: the chat template does not show the final message as it is");
  bool kept = std::string_view(prompt).substr(at).starts_with(tail);
  prompt.resize(at + (kept ? tail.size() : inner.size()));
  return {};
}

// The tokenizers library's DecodeStream as a TokenDecoder.
class Decoder final : public msg::TokenDecoder {
 public:
  Decoder(const tokenizers::Tokenizer& tokenizer, tokenizers::SkipSpecial skip) : stream_(tokenizer, skip) {}
  void step(uint32_t id, std::string& out) override { stream_.step(id, out); }
  void finish(std::string& out) override { stream_.finish(out); }

 private:
  tokenizers::DecodeStream stream_;
};

tokenizers::SkipSpecial skip_of(msg::SkipSpecial skip) {
  return skip == msg::SkipSpecial::kYes ? tokenizers::SkipSpecial::kYes : tokenizers::SkipSpecial::kNo;
}

}  // namespace

bool crowded(std::string_view text, size_t most_members, size_t deepest) {
  std::vector<size_t> members{0};
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
        break;
      case '{':
      case '[':
        if (members.size() > deepest) return true;
        members.push_back(0);
        break;
      case '}':
      case ']':
        if (members.size() > 1) members.pop_back();
        break;
      case ':':
        if (++members.back() > most_members) return true;
        break;
      default: break;
    }
  }
  return false;
}

base::Result<std::shared_ptr<const Processor>> make_processor(std::string_view tokenizer_json,
                                                              std::string_view tokenizer_config,
                                                              std::string_view chat_template_jinja,
                                                              std::string_view tool_format) {
  auto tokenizer = tokenizers::Tokenizer::parse(tokenizer_json);
  if (!tokenizer) return base::invalid(std::move(tokenizer.error().message));
  auto out = std::make_shared<Processor>();
  out->tokenizer = std::move(*tokenizer);
  Templates templates{std::string(chat_template_jinja), {}};
  const std::string_view file = chat_template_jinja.empty() ? "tokenizer_config.json: " : "chat_template.jinja: ";
  if (tokenizer_config.empty()) {
    guess_tokens(*out->tokenizer, *out);
  } else if (auto status = read_config(tokenizer_config, *out, templates); !status.ok()) {
    return status;
  }
  if (templates.usual.empty() && out->tokenizer->id("<|im_start|>"))
    templates.usual = kChatml;
  else if (templates.usual.empty() && out->tokenizer->id("<|start_header_id|>"))
    templates.usual = kLlama3;
  if (auto status = set_format(templates, tool_format, *out); !status.ok()) return status;
  out->developers = names_developers(templates.usual) || names_developers(templates.tool_use);
  for (auto [source, name, to] : {std::tuple(&templates.usual, "the chat template", &out->chat),
                                  std::tuple(&templates.tool_use, "the chat template tool_use", &out->tool_chat)}) {
    if (source->empty()) continue;
    auto chat = jinja::Template::parse(*source);
    if (!chat) return base::invalid(std::string(file) + name + ", " + chat.error().message);
    *to = std::move(*chat);
  }
  out->chat_source = std::move(templates.usual);
  return std::shared_ptr<const Processor>(std::move(out));
}

std::vector<uint32_t> Processor::encode(std::string_view text, msg::AddSpecial add,
                                        const std::atomic<bool>* cancelled) const {
  if (add == msg::AddSpecial::kNo) return tokenizer->encode(text, tokenizers::AddSpecial::kNo, cancelled);
  if (!markers) return tokenizer->encode(text, tokenizers::AddSpecial::kYes, cancelled);
  auto ids = tokenizer->encode(text, tokenizers::AddSpecial::kNo, cancelled);
  ids.insert(ids.begin(), markers->before.begin(), markers->before.end());
  ids.insert(ids.end(), markers->after.begin(), markers->after.end());
  return ids;
}

msg::TokenPair Processor::join_pair(std::span<const uint32_t> first, std::span<const uint32_t> second,
                                    size_t most) const {
  if (!markers) {
    auto pair = tokenizer->join_pair(first, second, most);
    return {std::move(pair.ids), std::move(pair.types)};
  }
  tokenizers::PairTemplate around;
  for (auto [text, type] :
       {std::pair{tokenizers::PairPart::What::kFirst, 0u}, std::pair{tokenizers::PairPart::What::kSecond, 1u}}) {
    around.push_back({tokenizers::PairPart::What::kIds, type, markers->before});
    around.push_back({text, type, {}});
    around.push_back({tokenizers::PairPart::What::kIds, type, markers->after});
  }
  auto pair = tokenizers::join_pair(around, first, second, most);
  return {std::move(pair.ids), std::move(pair.types)};
}

size_t Processor::pair_size(size_t first, size_t second) const {
  const size_t own = markers ? 2 * (markers->before.size() + markers->after.size()) : tokenizer->pair_markers();
  return first + second + own;
}

std::string Processor::decode(std::span<const uint32_t> ids, msg::SkipSpecial skip) const {
  return tokenizer->decode(ids, skip_of(skip));
}

std::unique_ptr<msg::TokenDecoder> Processor::decoder(msg::SkipSpecial skip) const {
  return std::make_unique<Decoder>(*tokenizer, skip_of(skip));
}

base::Result<std::string> Processor::render_chat(const Json& messages, const Json& extra,
                                                 const msg::ChatOptions& options) const {
  if (!chat) return base::failure(base::Code::kInvalidArgument, "the model has no chat template");
  if (options.add_generation_prompt && options.continue_final_message)
    return base::invalid("add_generation_prompt and continue_final_message exclude each other");
  Json conversation = messages;
  if (auto status = prepare(conversation, options); !status.ok()) return status;
  // Templates test these with `is none`, so they are defined.
  Json variables = {{"tools", nullptr}, {"documents", nullptr}};
  for (auto [name, token] : {std::pair{"bos_token", &bos}, std::pair{"eos_token", &eos}, std::pair{"unk_token", &unk},
                             std::pair{"pad_token", &pad}})
    if (!token->empty()) variables[name] = *token;
  if (extra.is_object()) variables.update(extra);
  std::string final_content;
  if (options.continue_final_message && conversation.back()["content"].is_string())
    final_content = conversation.back()["content"].get<std::string>();
  variables["messages"] = std::move(conversation);
  variables["add_generation_prompt"] = options.add_generation_prompt;
  const bool with_tools = tool_chat && variables["tools"].is_array() && !variables["tools"].empty();
  auto prompt = render(*(with_tools ? tool_chat : chat), variables, options.budget);
  if (prompt && options.continue_final_message)
    if (auto status = cut_after_final_message(*prompt, final_content); !status.ok()) return status;
  return prompt;
}

}  // namespace weir::text
