#include "dialects/openai/request.h"

#include <limits>

#include "dialects/openai/functions.h"
#include "dialects/openai/tools.h"

namespace weir::openai {
namespace {

using marshal::FieldReader;
using marshal::JsonCursor;

constexpr auto kParams = marshal::Protocol::kOpenAi;
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxName = 256;

// Mistral's, llama.cpp's and SGLang's names of what vLLM calls otherwise.
constexpr RenamedMember kOtherNames[] = {{"random_seed", "seed"},
                                         {"repeat_penalty", "repetition_penalty"},
                                         {"regex", "guided_regex"},
                                         {"ebnf", "guided_grammar"}};

// One request object, member by member; each function consumes one value.
class Members {
 public:
  Members(JsonCursor& json, Kind kind, Request& out) : json_(json), kind_(kind), out_(out) {}

  ApiError read() {
    bool good = json_.object([&](std::string_view name) { return member(std::string(name)); }) && json_.finish();
    if (!good) return {fields_.error(), fields_.param(), {}};
    return settle();
  }

 private:
  bool chat() const { return kind_ == Kind::kChat; }
  bool makes_text() const { return kind_ == Kind::kChat || kind_ == Kind::kCompletion; }

  bool member(const std::string& name) {
    bool ok = true;
    if (name == "model") return fields_.text(name, kMaxName, out_.model);
    if (read_prompt(name, ok) || read_prompt_option(name, ok)) return ok;
    if (makes_text() && (read_common(name, ok) || read_logprobs(name, ok) || read_filter(name, ok))) return ok;
    if (chat() && read_chat_option(name, ok)) return ok;
    if (makes_text() && read_other_name(name, ok)) return ok;
    if (const auto* row = makes_text() ? marshal::find_param(kParams, name) : nullptr)
      return marshal::read_param(fields_, kParams, *row, name, out_.params);
    if (kind_ == Kind::kEmbedding && read_embedding(name, ok)) return ok;
    if (kind_ == Kind::kTokenize && name == "return_token_strs") return fields_.flag(name, out_.token_strings);
    return skip_member(json_, fields_, name);
  }

  // ---- What the model is given

  bool read_prompt(std::string_view name, bool& ok) {
    const bool talks = kind_ != Kind::kCompletion;
    if (name == "messages" && talks)
      ok = raw(name, JsonCursor::Kind::kArray, "a list of messages", out_.messages);
    else if (name == "tools" && talks && kind_ != Kind::kEmbedding)
      ok = raw(name, JsonCursor::Kind::kArray, "a list of tools", out_.tools);
    else if (name == "chat_template_kwargs" && talks)
      ok = raw(name, JsonCursor::Kind::kObject, "an object", out_.template_variables);
    else if (name == (kind_ == Kind::kEmbedding ? "input" : "prompt") && !chat())
      ok = read_prompts(fields_, name, kind_ == Kind::kEmbedding ? kMaxInputs : kMaxChoices, mixed(), out_.prompts);
    else
      return false;
    return true;
  }

  // llama.cpp's server takes ids and texts in one prompt also at /v1/completions. A list of lists of texts stays an
  // error there, as in OpenAI's API. SGLang and Text Generation Inference have neither.
  MixedPrompts mixed() const {
    if (kind_ != Kind::kCompletion) return MixedPrompts::kNo;
    if (out_.native.mixed_prompts) return MixedPrompts::kYes;
    return out_.native.answers ? MixedPrompts::kNo : MixedPrompts::kWithIds;
  }

  bool read_prompt_option(std::string_view name, bool& ok) {
    const bool talks = kind_ != Kind::kCompletion;
    if (name == "add_special_tokens")
      ok = optional_flag(name, out_.add_special);
    else if (name == "truncate_prompt_tokens" && kind_ != Kind::kTokenize)
      ok = read_truncation(fields_, name, out_.truncate_prompt, out_.cut_to_context);
    else if (name == "truncation_side" && makes_text())
      ok = truncation_side(name);
    else if (name == "add_generation_prompt" && talks)
      ok = optional_flag(name, generation_prompt_);
    else if (name == "continue_final_message" && talks)
      ok = fields_.flag(name, out_.continue_final_message);
    else if (name == "priority" && kind_ != Kind::kTokenize)
      ok = fields_.whole(name, 0, std::numeric_limits<uint32_t>::max(), out_.priority);
    else if (name == "cache_salt" && kind_ != Kind::kTokenize)
      ok = fields_.text(name, kMaxName, out_.cache_salt);
    else if (name == "request_id" && kind_ != Kind::kTokenize)
      ok = request_id(name);
    else
      return false;
    return true;
  }

  bool truncation_side(std::string_view name) {
    std::string side;
    if (!fields_.text(name, 16, side)) return false;
    out_.truncate_end = side == "right";
    return side.empty() || side == "left" || out_.truncate_end || fields_.refuse(name, "takes \"left\" or \"right\"");
  }

  bool raw(std::string_view name, JsonCursor::Kind kind, std::string_view what, std::string_view& out) {
    if (fields_.none()) return true;
    if (json_.peek() != kind) return fields_.unexpected(name, what);
    size_t at = json_.at();
    if (!json_.skip()) return false;
    out = json_.since(at);
    return true;
  }

  bool request_id(std::string_view name) {
    if (!fields_.text(name, 128, out_.request_id)) return false;
    for (char c : out_.request_id)
      if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\')
        return fields_.refuse(name, "takes printable ASCII without spaces and quotes");
    return true;
  }

  bool optional_flag(std::string_view name, std::optional<bool>& out) {
    if (fields_.none()) return true;
    bool value = false;
    if (!fields_.flag(name, value)) return false;
    out = value;
    return true;
  }

  // ---- What it is to do

  bool read_common(std::string_view name, bool& ok) {
    if (name == "n")
      ok = fields_.whole(name, 1, kMaxChoices, out_.n);
    else if (name == "best_of" && !chat())
      ok = fields_.whole(name, 0, kMaxBestOf, out_.best_of);
    else if (name == "stream")
      ok = fields_.flag(name, out_.stream);
    else if (name == "timings_per_token")
      ok = fields_.flag(name, out_.timings);
    else if (name == "return_progress")
      ok = fields_.flag(name, out_.progress);
    else if (name == "stream_options")
      ok = stream_options(name);
    else if (name == "max_completion_tokens" && chat())
      ok = marshal::read_param(fields_, kParams, *marshal::find_param(kParams, "max_tokens"), name, newer_);
    else if (name == "suffix" && !chat())
      ok = fields_.text(name, kMaxText, out_.suffix);
    else if (name == "echo")
      ok = fields_.flag(name, out_.echo);
    else if (name == "return_token_ids")
      ok = fields_.flag(name, out_.token_ids);
    else if (name == "return_tokens_as_token_ids")
      ok = fields_.flag(name, out_.tokens_as_ids);
    else if (name == "readouts")
      ok = readouts(name);
    else
      return false;
    return true;
  }

  // llama.cpp's server generates without end for -1 tokens, and as many as the context has where more are asked for.
  bool read_other_name(const std::string& name, bool& ok) {
    for (const RenamedMember& other : kOtherNames) {
      if (other.name != name) continue;
      const auto& row = *marshal::find_param(kParams, other.openai);
      ok = marshal::read_param(fields_, kParams, row, name, out_.params);
      if (other.openai.starts_with("guided_")) out_.names = kOtherNames;
      return true;
    }
    if (name != "n_predict") return false;
    std::optional<int64_t> most;
    ok = fields_.whole(name, -1, kMost, most);
    out_.fill_context = most == -1;
    if (most && *most >= 0) out_.params.max_tokens = uint32_t(*most), out_.params.max_tokens_name = "n_predict";
    out_.params.cut_max_tokens = true;
    return true;
  }

  bool stream_options(std::string_view name) {
    if (fields_.none()) return true;
    stream_options_ = true;
    if (json_.peek() != JsonCursor::Kind::kObject) return fields_.unexpected(name, "an object");
    return json_.object([&](std::string_view key) {
      if (key == "include_usage") return optional_flag("stream_options.include_usage", include_usage_);
      if (key == "continuous_usage_stats")
        return fields_.flag("stream_options.continuous_usage_stats", out_.continuous_usage);
      if (key == "include_obfuscation") return json_.skip();
      return fields_.refuse(name, "takes include_usage and continuous_usage_stats");
    });
  }

  // Calls of tools, and thoughts.
  bool read_chat_option(std::string_view name, bool& ok) {
    if (name == "tool_choice")
      ok = read_tool_choice(fields_, out_);
    else if (name == "store")
      ok = fields_.flag(name, out_.store);
    else if (name == "metadata")
      ok = metadata(name);
    else if (name == "functions")
      ok = raw(name, JsonCursor::Kind::kArray, "a list of functions", out_.functions);
    else if (name == "function_call")
      ok = read_function_call(fields_, out_);
    else if (name == "parallel_tool_calls")
      ok = fields_.flag(name, out_.parallel_tools);
    else if (name == "reasoning_effort")
      ok = fields_.text(name, 32, out_.reasoning_effort);
    else if (name == "verbosity")
      ok = fields_.text(name, 32, out_.verbosity);
    else if (name == "enable_thinking")
      ok = optional_flag(name, out_.enable_thinking);
    else if (name == "include_reasoning")
      ok = fields_.flag(name, out_.include_reasoning);
    else if (name == "separate_reasoning")
      ok = fields_.flag(name, out_.separate_reasoning);
    else
      return false;
    return true;
  }

  bool metadata(std::string_view name) {
    const size_t at = json_.at();
    if (!skip_member(json_, fields_, name)) return false;
    out_.metadata = json_.since(at);
    return true;
  }

  // true, or [[start, end], …].
  bool readouts(std::string_view name) {
    if (fields_.none()) return true;
    out_.readout_ranges.clear();
    if (json_.peek() == JsonCursor::Kind::kBool) return json_.boolean(out_.readouts);
    if (json_.peek() != JsonCursor::Kind::kArray)
      return fields_.unexpected(name, "true, or a list of [start, end] positions");
    return json_.array([&] {
      if (out_.readout_ranges.size() == kMaxRanges)
        return fields_.refuse(name, "at most " + std::to_string(kMaxRanges) + " ranges");
      std::vector<uint32_t> ends;
      if (json_.peek() != JsonCursor::Kind::kArray || !fields_.ids(name, 2, ends) || ends.size() != 2 ||
          ends[0] >= ends[1])
        return fields_.refuse(name, "a range is [start, end] with start < end");
      out_.readout_ranges.push_back({ends[0], ends[1]});
      return true;
    });
  }

  bool read_logprobs(std::string_view name, bool& ok) {
    if (name == "logprobs")
      ok = chat() ? fields_.flag(name, chat_logprobs_) : fields_.whole(name, 0, kMaxLogprobs, out_.logprobs);
    else if (name == "top_logprobs" && chat())
      ok = fields_.whole(name, 0, kMaxLogprobs, top_logprobs_);
    else if (name == "prompt_logprobs")
      ok = fields_.whole(name, 0, kMaxLogprobs, out_.prompt_logprobs);
    else
      return false;
    return true;
  }

  bool read_filter(std::string_view name, bool& ok) {
    if (name == "allowed_token_ids")
      ok = fields_.none() || (fields_.ids(name, kMaxIds, out_.allowed_ids) &&
                              (!out_.allowed_ids.empty() || fields_.refuse(name, "the list is empty")));
    else if (name == "bad_words")
      ok = bad_words(name);
    else
      return false;
    return true;
  }

  bool bad_words(std::string_view name) {
    if (fields_.none()) return true;
    out_.bad_words.clear();
    size_t bytes = 0;
    return json_.peek() == JsonCursor::Kind::kArray ? json_.array([&] {
      if (json_.peek() != JsonCursor::Kind::kString) return fields_.unexpected(name, "a list of strings");
      if (out_.bad_words.size() == kMaxBadWords)
        return fields_.refuse(name, "at most " + std::to_string(kMaxBadWords) + " strings");
      std::string& word = out_.bad_words.emplace_back();
      if (!fields_.text(name, kMaxBadWordBytes, word)) return false;
      if (word.empty()) return fields_.refuse(name, "a string is empty");
      return (bytes += word.size()) <= kMaxBadWordBytes ||
             fields_.refuse(name, "the strings have more than " + std::to_string(kMaxBadWordBytes) + " bytes");
    })
                                                    : fields_.unexpected(name, "a list of strings");
  }

  bool read_embedding(std::string_view name, bool& ok) {
    std::string format;
    if (name == "encoding_format") {
      ok = fields_.text(name, 16, format);
      out_.embedding_types.clear();
      if (format == "base64")
        out_.embedding_types.push_back(EmbeddingType::kBase64);
      else if (ok && !format.empty() && format != "float")
        ok = fields_.refuse(name, "takes \"float\" or \"base64\"");
    } else if (name == "dimensions") {
      ok = fields_.whole(name, 1, kMost, out_.dimensions);
    } else {
      return false;
    }
    return true;
  }

  // Rules between members, which need the whole request.
  ApiError settle() {
    if (newer_.max_tokens)
      out_.params.max_tokens = newer_.max_tokens, out_.params.max_tokens_name = "max_completion_tokens";
    if (chat_logprobs_) out_.logprobs = top_logprobs_.value_or(0);
    if (!chat_logprobs_ && top_logprobs_.value_or(0) > 0)
      return openai::refuse("top_logprobs", "top_logprobs: needs logprobs: true");
    const bool answered = kind_ != Kind::kEmbedding && !out_.continue_final_message;
    out_.add_generation_prompt = generation_prompt_.value_or(answered);
    if (out_.continue_final_message && out_.add_generation_prompt)
      return openai::refuse("continue_final_message", "continue_final_message: needs add_generation_prompt: false");
    out_.include_usage = include_usage_.value_or(false);
    // Whoever wants no usage at the end wants none before it.
    if (include_usage_ == false) out_.continuous_usage = false;
    if (stream_options_ && !out_.stream) return openai::refuse("stream_options", "stream_options: needs stream: true");
    if (out_.stream && out_.prompt_logprobs)
      return openai::refuse("prompt_logprobs", "prompt_logprobs: not in a stream; completions have echo with logprobs");
    if (!out_.suffix.empty() && (out_.echo || out_.truncate_prompt || out_.cut_to_context))
      return openai::refuse("suffix", "suffix: not with echo or truncate_prompt_tokens");
    if (const std::string name(out_.params.max_tokens_name); chat() && out_.params.max_tokens == 0u)
      return openai::refuse(name, name + " must be >= 1, not 0");
    if (chat() && out_.messages.empty()) return openai::refuse("messages", "messages must be a list of messages");
    if (out_.best_of > 0 && out_.best_of < out_.n)
      return openai::refuse("best_of", "best_of: must be >= n, which is " + std::to_string(out_.n));
    if (out_.stream && out_.best_of > out_.n) return openai::refuse("best_of", "best_of: not in a stream; use n");
    if (ApiError bad = settle_functions(out_); !bad.ok()) return bad;
    return settle_input();
  }

  ApiError settle_input() {
    std::string_view input = kind_ == Kind::kEmbedding ? "input" : "prompt";
    if (!chat() && out_.prompts.empty() && out_.messages.empty())
      return openai::refuse(input, std::string(input) + " must be a string, a list of strings, or token ids");
    if (kind_ == Kind::kEmbedding && !out_.prompts.empty() && !out_.messages.empty())
      return openai::refuse("messages", "messages: not with input");
    if (kind_ == Kind::kTokenize && out_.prompts.size() + size_t(!out_.messages.empty()) != 1)
      return openai::refuse("prompt", "takes one prompt, or messages");
    if (makes_text() && out_.prompts.size() * out_.candidates() > kMaxChoices)
      return openai::refuse("n", "n: at most " + std::to_string(kMaxChoices) + " choices in one request, prompts × n");
    return {};
  }

  JsonCursor& json_;
  FieldReader fields_{json_};
  Kind kind_;
  Request& out_;
  marshal::GenerationParams newer_;  // max_completion_tokens, which counts for more than max_tokens
  std::optional<uint32_t> top_logprobs_;
  std::optional<bool> generation_prompt_, include_usage_;
  bool chat_logprobs_ = false, stream_options_ = false;
};

}  // namespace

bool read_truncation(FieldReader& fields, std::string_view name, std::optional<uint32_t>& most, bool& to_context) {
  std::optional<int32_t> tokens;
  if (!fields.whole(name, -1, kMost, tokens)) return false;
  if (tokens == 0) return fields.refuse(name, "must be -1 or at least 1");
  if (tokens && *tokens > 0) most = uint32_t(*tokens);
  if (tokens) to_context = *tokens < 0;
  return true;
}

ApiError read_request(std::string_view body, Kind kind, Request& request) {
  JsonCursor json(body);
  return Members(json, kind, request).read();
}

ApiError read_detokenize(std::string_view body, Detokenize& request) {
  JsonCursor json(body);
  FieldReader fields(json);
  bool said = false;
  bool good = json.object([&](std::string_view name) {
    if (name == "model") return fields.text("model", kMaxName, request.model);
    if (name == "tokens") return said = true, fields.ids("tokens", kMaxIds, request.tokens);
    return fields.refuse(std::string(name.substr(0, 64)), "no such parameter");
  }) && json.finish();
  if (!good) return {fields.error(), fields.param(), {}};
  if (!said) return refuse("tokens", "tokens must be a list of token ids");
  return {};
}

}  // namespace weir::openai
