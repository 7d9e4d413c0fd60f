// The requests for text as their members say it, before they meet a model.
//
// Members that OpenAI's and vLLM's clients send and that change nothing here are passed over (user, metadata, store,
// …); members that would change the answer, but are not offered, are refused by name unless they have their neutral
// value; a member that nobody knows is refused whatever its value. Of a known one null is "not there".
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "dialects/openai/api_error.h"
#include "marshal/generation_params.h"
#include "msg/generate.h"

namespace weir::text {
struct TokenFilter;
}

namespace weir::openai {

enum class Kind : uint8_t { kChat, kCompletion, kEmbedding, kTokenize };

inline constexpr size_t kMaxChoices = 128;                            // of one request, for one prompt or several
inline constexpr int64_t kMaxBestOf = 20;                             // as OpenAI has it
inline constexpr size_t kMaxInputs = 2048;                            // texts of one embeddings request
inline constexpr size_t kMaxBadWords = 256, kMaxBadWordBytes = 4096;  // of all of them
inline constexpr size_t kMaxBiasBytes = 4096;                         // of all texts of biases
// Alternatives per position.
inline constexpr auto kMaxLogprobs = uint32_t(marshal::GenerationParamTable::kTopLogprobs.openai_most);
inline constexpr size_t kMaxRanges = 64;      // of positions with readouts
inline constexpr size_t kMaxIds = 4'000'000;  // of one prompt: above any context, below what a body holds
inline constexpr size_t kMaxText = size_t(1) << 30;
inline constexpr size_t kMaxPieces = 1024;  // texts of one prompt that has ids between them

struct Prompt {
  std::string text;
  std::vector<uint32_t> ids;
  bool tokens = false;  // ids, not text
  // A prompt that has both: texts one after the other in `text`, and behind each some of `ids`, in order. Where
  // `tokens` is set it begins with ids, and the first text is none. Empty: it has one of both.
  struct Stretch {
    size_t bytes = 0, ids = 0;
  };
  std::vector<Stretch> pieces;
};

// How embeddings are written: OpenAI's list; Ollama's, and its one vector; lists alone, as Text Embeddings Inference
// has them; Cohere's second API, its first with types, and without; llama.cpp's list of objects; vLLM's of /pooling.
enum class EmbeddingForm : uint8_t {
  kOpenAi,
  kOllama,
  kOllamaOne,
  kLists,
  kCohere,
  kCohereTyped,
  kCohereFloats,
  kLlamaCpp,
  kPooling
};
// As what: floats, their bytes in base64, or a bit each in whole numbers from -128 or from 0.
enum class EmbeddingType : uint8_t { kFloat, kBase64, kBinary, kUbinary };

// Whether tools are called: as the model likes, never, or always.
enum class ToolChoice : uint8_t { kAuto, kNone, kRequired };

// How a prompt that is longer than the model's context is shortened. kTurnsGo: the oldest turns of a chat go, as many
// as must; instructions stay, and so does the last message. kTextGoes: where that is not enough, and in other prompts,
// the middle of the text goes too, as in Ollama.
enum class Overlong : uint8_t { kRefused, kTurnsGo, kTextGoes };

// A tool of the Responses API whose calls the client knows by other names than the model does, or as custom_tool_call.
struct ClientTool {
  std::string shown;  // to the model
  std::string name, name_space;
  bool custom = false;
};

// llama.cpp's: the number of an adapter, and how much of it is added.
struct LoraScale {
  uint32_t id = 0;
  float scale = 0;
};

// How answers of /generate (generate/) and of llama.cpp's routes (llama_cpp/) are written.
struct NativeForm {
  bool answers = false;               // it is such a request
  bool list = false;                  // a list of answers, also where it is one
  bool details = false;               // TGI: of the tokens, and of the end
  bool full_text = false;             // TGI: the prompt stands before the text
  bool token_texts = false;           // SGLang: beside the ids of logprobs
  uint32_t logprob_start = 0;         // SGLang: the first position of the prompt whose logprob is told
  std::vector<std::string> ids{};     // SGLang: of the answer to each prompt
  std::vector<std::string> fields{};  // llama.cpp: the only ones of an answer, "group/field" of an object; empty: all
  // llama.cpp: so long after its first token a text ends once it has a second line; 0: it does not. So many blanks each
  // line but the first must begin with, or the text ends before it.
  uint32_t predict_ms = 0, indent = 0;
  std::vector<LoraScale> lora{};  // llama.cpp
  bool mixed_prompts = false;     // llama.cpp: a prompt may be a list of ids and texts, and of texts alone
  bool final_shares = false;      // llama.cpp: probabilities are those that tokens were drawn by
};

// A number that is added to the logit of a token, or of each token of a text; minus infinity: it never comes.
struct TextBias {
  std::string text;
  std::optional<uint64_t> id;  // in place of the text
  float bias = 0;
};

struct Request {
  std::span<const RenamedMember> names;  // of its members, where its API has others than OpenAI's chats; literals
  base::Bytes translated;  // the JSON that the request was read from, where that is not the body (translation.h)
  // The Responses API has these: members that the answer repeats, as JSON without braces; whether it is stored; the
  // turns of the chat so far, as the inside of a JSON list: those that were stored, behind the instructions, and the
  // new ones.
  std::string echoed;
  bool store = false, instructed = false;
  bool warms_up = false;    // its WebSocket prepares what is to come (`generate: false`): nothing is answered
  bool background = false;  // nobody waits for the answer (responses/background.h)
  std::string response_id;  // of the answer, where it is known already
  std::string previous;     // the response whose turns are `earlier`, where they are to be asked of other nodes
  base::Bytes earlier;
  std::string turns;
  std::string conversation;             // whose items the answer goes on behind, and is added to
  std::string new_items;                // of the input, as the conversation keeps them: the inside of a JSON list
  std::vector<std::string> references;  // responses that items of the input are in, to be looked for first
  std::vector<ClientTool> client_tools;
  std::string model;
  std::vector<Prompt> prompts;  // of all but chats
  std::string suffix;           // of a completion: what stands behind the text that is made
  struct Infill {
    bool asked = false;
    std::string begun;                                       // of the text that is made
    std::vector<std::pair<std::string, std::string>> extra;  // other files: name, text
  } infill;                                                  // of llama.cpp's /infill, beside the prompt and the suffix
  // Members of chats: JSON, inside the body or `translated`, which must outlive this. Empty where the member is not
  // there.
  std::string_view messages, tools, template_variables;
  std::string_view metadata;   // of a chat that is stored
  std::string_view functions;  // OpenAI's older form of tools (functions.h)
  bool function_call = false;  // there is such a member
  std::string reasoning_effort, verbosity;
  std::optional<bool> enable_thinking;
  bool include_reasoning = true, separate_reasoning = true;  // false: thoughts are left out; are part of the text
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name;                   // of the one tool to call, with kRequired; empty: any
  std::vector<std::string> custom_tools;   // names of a chat's tools whose calls have a text (custom_tools.h)
  std::vector<std::string> allowed_tools;  // the others are not shown to the model; empty: all
  bool parallel_tools = true;
  std::vector<uint32_t> context;  // ids before the prompt of a chat: of Ollama's conversations
  bool add_generation_prompt = true, continue_final_message = false;

  marshal::GenerationParams params;
  std::shared_ptr<const msg::TokenGrammar> grammar;  // of params.structured, once it is compiled
  std::vector<uint32_t> allowed_ids;                 // the only tokens that may be drawn; empty: all
  std::vector<std::string> bad_words;
  std::vector<TextBias> biases;                     // llama.cpp's, until they are in params.logit_bias
  std::shared_ptr<const text::TokenFilter> filter;  // of both, once the prompt is made; null: there is none
  uint32_t n = 1;
  uint32_t best_of = 0;  // of a completion: how many are made of each prompt, of which the n likeliest are answered
  // How many are made of each prompt.
  uint32_t candidates() const { return std::max(n, best_of); }
  bool stream = false, include_usage = false, continuous_usage = false;
  bool timings = false, progress = false;  // llama.cpp's `timings`; its `prompt_progress` in a stream
  bool echo = false;
  std::optional<uint32_t> logprobs, prompt_logprobs;  // how many alternatives
  bool token_ids = false;                             // return them
  bool tokens_as_ids = false;                         // "token_id:17" instead of the text in logprobs
  std::optional<bool> add_special;
  std::optional<uint32_t> truncate_prompt;  // keep this many of the last tokens
  bool truncate_end = false;                // of the first ones
  bool cut_to_context = false;              // as many as the model takes
  Overlong overlong = Overlong::kRefused;
  uint32_t priority = 0;
  std::string request_id, cache_salt;
  std::string ignored;    // names of members that nobody here knows and that its API lets pass, with commas between
  bool readouts = false;  // of every generated token
  std::vector<msg::PositionRange> readout_ranges;

  // A chat has these once its prompt has been made (make_chat()): there are tools that may be called; those that must,
  // as msg::StructuredOutput has them; whether the prompt ends in thoughts.
  bool calls_tools = false;
  std::string call_form;
  msg::StructuredOutput::Thoughts thoughts = msg::StructuredOutput::Thoughts::kNone;

  bool fill_context = false;  // a completion that does not say how long takes what the context has

  std::vector<EmbeddingType> embedding_types;  // none: floats
  bool unit_length = false;                    // embeddings have it also where the model's have not
  bool raw_vectors = false;                    // they are to be as the model makes them, of any length
  bool beginning_goes = false;                 // of a text that is too long; else its end
  EmbeddingForm embedding_form = EmbeddingForm::kOpenAi;
  std::optional<uint32_t> dimensions;
  bool token_strings = false;  // of /tokenize
  NativeForm native;
};

// Errors: 400 naming the member.
ApiError read_request(std::string_view body, Kind kind, Request& request);

// /detokenize.
struct Detokenize {
  std::string model;
  std::vector<uint32_t> tokens;
};
ApiError read_detokenize(std::string_view body, Detokenize& request);

// A text, a list of texts, a list of ids, a list of lists of those; at most `most` of them. `mixed`: one of them may
// also be a list of ids and texts, as in llama.cpp; with kYes a list of texts alone, too.
enum class MixedPrompts : uint8_t { kNo, kWithIds, kYes };
bool read_prompts(marshal::FieldReader& fields, std::string_view name, size_t most, MixedPrompts mixed,
                  std::vector<Prompt>& out);

// "truncate_prompt_tokens": how many tokens are kept, into `most`; -1: as many as the model takes, into `to_context`.
bool read_truncation(marshal::FieldReader& fields, std::string_view name, std::optional<uint32_t>& most,
                     bool& to_context);

// members.cc: skips the value of a member that no reader here takes. False, and the error is in `fields`: the member
// would have an effect elsewhere and has none here, or nobody knows its name.
bool skip_member(marshal::JsonCursor& json, marshal::FieldReader& fields, std::string_view name);

}  // namespace weir::openai
