// Members of a request that have no effect here: which may pass, and which are refused because they would have one.
#include <algorithm>
#include <array>
#include <optional>

#include "base/encoding.h"
#include "dialects/openai/request.h"
#include "marshal/field_reader.h"
#include "marshal/json_cursor.h"

namespace weir::openai {
namespace {

using marshal::FieldReader;
using marshal::JsonCursor;

// Notes for the operator, hints for speed, and choices between things that are the same here. Each is of its type all
// the same: a client is told of a mistake.
struct Harmless {
  std::string_view name;
  JsonCursor::Kind kind;
};
constexpr std::array<Harmless, 33> kHarmless{{{"user", JsonCursor::Kind::kString},
                                              {"guided_decoding_backend", JsonCursor::Kind::kString},
                                              {"metadata", JsonCursor::Kind::kObject},
                                              {"store", JsonCursor::Kind::kBool},
                                              {"service_tier", JsonCursor::Kind::kString},
                                              {"safety_identifier", JsonCursor::Kind::kString},
                                              {"prompt_cache_key", JsonCursor::Kind::kString},
                                              {"prompt_cache_retention", JsonCursor::Kind::kString},
                                              {"prompt_cache_options", JsonCursor::Kind::kObject},
                                              {"verbosity", JsonCursor::Kind::kString},
                                              {"prediction", JsonCursor::Kind::kObject},
                                              {"session_id", JsonCursor::Kind::kString},
                                              {"spaces_between_special_tokens", JsonCursor::Kind::kBool},
                                              {"detokenize", JsonCursor::Kind::kBool},
                                              {"return_tokens_as_text", JsonCursor::Kind::kBool},
                                              {"stream_interval", JsonCursor::Kind::kNumber},
                                              {"cache_prompt", JsonCursor::Kind::kBool},
                                              {"id_slot", JsonCursor::Kind::kNumber},
                                              {"timings_per_token", JsonCursor::Kind::kBool},
                                              {"return_progress", JsonCursor::Kind::kBool},
                                              {"verbose", JsonCursor::Kind::kBool},
                                              {"sse_ping_interval", JsonCursor::Kind::kNumber},
                                              {"kv_transfer_params", JsonCursor::Kind::kObject},
                                              {"samplers", JsonCursor::Kind::kArray},
                                              {"min_keep", JsonCursor::Kind::kNumber},
                                              {"mirostat_tau", JsonCursor::Kind::kNumber},
                                              {"mirostat_eta", JsonCursor::Kind::kNumber},
                                              {"dynatemp_exponent", JsonCursor::Kind::kNumber},
                                              {"xtc_threshold", JsonCursor::Kind::kNumber},
                                              {"dry_base", JsonCursor::Kind::kNumber},
                                              {"dry_allowed_length", JsonCursor::Kind::kNumber},
                                              {"dry_penalty_last_n", JsonCursor::Kind::kNumber},
                                              {"dry_sequence_breakers", JsonCursor::Kind::kArray}}};

// Known to clients, not offered here. `neutral`: a value that asks for nothing, beside null, false, "", [] and {}; or
// kEvenEmpty, where {} asks for the thing with its defaults. A member with two such values has a row for each.
constexpr std::string_view kEvenEmpty = "null";
struct Unoffered {
  std::string_view name, neutral, why;
};
constexpr std::array<Unoffered, 30> kUnoffered{{
    {"best_of", "1", "use n"},
    {"modalities", R"(["text"])", "only text is offered"},
    {"audio", "", "only text is offered"},
    {"moderation", "", "not offered"},
    {"web_search_options", kEvenEmpty, "not offered"},
    {"use_beam_search", "", "beam search is not offered"},
    {"length_penalty", "1.0", "beam search is not offered"},
    {"early_stopping", "", "beam search is not offered"},
    {"logits_processors", "", "not offered"},
    {"guided_whitespace_pattern", "", "white space is at most one space behind a comma or a colon"},
    {"structural_tag", "", "not offered; use tools or structured_outputs"},
    {"chat_template", "", "the template is the model's"},
    {"documents", "", "put them into the messages"},
    {"mm_processor_kwargs", "", "not offered"},
    {"prompt_embeds", "", "not offered"},
    {"thinking_token_budget", "", "not offered"},
    {"thinking", "", "use chat_template_kwargs"},
    {"lora_path", "", "not offered"},
    {"allowed_tools", "", "not offered"},
    {"vllm_xargs", "", "not offered"},
    {"typical_p", "1.0", "not offered"},
    {"mirostat", "0", "not offered"},
    {"typ_p", "1.0", "not offered"},
    {"dynatemp_range", "0.0", "not offered"},
    {"xtc_probability", "0.0", "not offered"},
    {"dry_multiplier", "0.0", "not offered"},
    {"top_n_sigma", "-1.0", "not offered"},
    {"top_n_sigma", "0.0", "not offered"},
    {"safe_prompt", "", "not offered"},
    {"return_full_text", "", "use echo, which puts the prompt before the text"},
}};

// Those that some endpoint here reads.
constexpr std::array<std::string_view, 68> kOffered{"model",
                                                    "functions",
                                                    "function_call",
                                                    "response_format",
                                                    "structured_outputs",
                                                    "guided_json",
                                                    "guided_regex",
                                                    "guided_choice",
                                                    "guided_grammar",
                                                    "regex",
                                                    "ebnf",
                                                    "json_schema",
                                                    "grammar",
                                                    "messages",
                                                    "prompt",
                                                    "suffix",
                                                    "input",
                                                    "tokens",
                                                    "tools",
                                                    "tool_choice",
                                                    "parallel_tool_calls",
                                                    "enable_thinking",
                                                    "include_reasoning",
                                                    "separate_reasoning",
                                                    "chat_template_kwargs",
                                                    "add_special_tokens",
                                                    "add_generation_prompt",
                                                    "continue_final_message",
                                                    "truncate_prompt_tokens",
                                                    "truncation_side",
                                                    "priority",
                                                    "cache_salt",
                                                    "request_id",
                                                    "n",
                                                    "stream",
                                                    "stream_options",
                                                    "max_tokens",
                                                    "max_completion_tokens",
                                                    "min_tokens",
                                                    "temperature",
                                                    "top_p",
                                                    "top_k",
                                                    "min_p",
                                                    "presence_penalty",
                                                    "frequency_penalty",
                                                    "repetition_penalty",
                                                    "seed",
                                                    "logit_bias",
                                                    "n_predict",
                                                    "repeat_penalty",
                                                    "allowed_token_ids",
                                                    "bad_words",
                                                    "stop",
                                                    "stop_token_ids",
                                                    "ignore_eos",
                                                    "include_stop_str_in_output",
                                                    "skip_special_tokens",
                                                    "echo",
                                                    "return_token_ids",
                                                    "return_tokens_as_token_ids",
                                                    "reasoning_effort",
                                                    "readouts",
                                                    "logprobs",
                                                    "top_logprobs",
                                                    "prompt_logprobs",
                                                    "encoding_format",
                                                    "dimensions",
                                                    "return_token_strs"};

bool is_neutral_value(std::string_view value) {
  constexpr std::array<std::string_view, 5> kNothing{"null", "false", "\"\"", "[]", "{}"};
  return std::find(kNothing.begin(), kNothing.end(), value) != kNothing.end();
}

std::string_view name_of(JsonCursor::Kind kind) {
  switch (kind) {
    case JsonCursor::Kind::kObject: return "an object";
    case JsonCursor::Kind::kArray: return "a list";
    case JsonCursor::Kind::kBool: return "true or false";
    case JsonCursor::Kind::kNumber: return "a number";
    default: return "a string";
  }
}

bool skip_harmless(FieldReader& fields, const Harmless& row) {
  JsonCursor& json = fields.json();
  if (fields.none()) return true;
  if (json.peek() != row.kind) return fields.unexpected(row.name, name_of(row.kind));
  if (row.name != "metadata") return json.skip();
  return json.object([&](std::string_view) {
    return json.peek() == JsonCursor::Kind::kString ? json.skip() : fields.unexpected(row.name, "an object of strings");
  });
}

std::string squeezed(std::string_view value) {
  std::string out;
  for (char c : value.substr(0, 64))
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') out += c;
  return out;
}

// Why a member with that value (JSON) is refused; nothing: it may pass, or asks for nothing.
std::optional<std::string> why_refused(std::string_view member, std::string_view value) {
  std::string text = squeezed(value);
  const bool neutral = value.size() <= 64 && is_neutral_value(text);
  const Unoffered* unoffered = nullptr;
  for (const Unoffered& u : kUnoffered) {
    if (u.name != member) continue;
    if (u.neutral == kEvenEmpty) return text == kEvenEmpty ? std::nullopt : std::optional(std::string(u.why));
    if (neutral || (!u.neutral.empty() && (text == u.neutral || text + ".0" == u.neutral))) return std::nullopt;
    unoffered = &u;
  }
  if (unoffered) return std::string(unoffered->why);
  if (std::find(kOffered.begin(), kOffered.end(), member) != kOffered.end()) {
    if (neutral) return std::nullopt;
    return "not a parameter of this endpoint";
  }
  // Whatever its value: false may ask for something as well as true does, and a name with a typo asks for nothing.
  std::string why = "no such parameter";
  if (auto near = base::near_miss(member.substr(0, 64), kOffered); !near.empty())
    why += "; did you mean " + std::string(near) + "?";
  return why;
}

}  // namespace

bool skip_member(JsonCursor& json, FieldReader& fields, std::string_view name) {
  const auto harmless =
      std::find_if(kHarmless.begin(), kHarmless.end(), [name](const Harmless& row) { return row.name == name; });
  if (harmless != kHarmless.end()) return skip_harmless(fields, *harmless);
  const size_t at = json.at();
  if (!json.skip()) return false;
  const std::optional<std::string> why = why_refused(name, json.since(at));
  return !why || fields.refuse(name.substr(0, 64), *why);
}

}  // namespace weir::openai
