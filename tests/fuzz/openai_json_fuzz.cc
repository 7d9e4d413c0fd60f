// Any bytes as the body of each kind of request: accepted only if a second parser accepts the JSON too, and what was
// read is within its bounds. An accepted chat's messages are checked and rendered, and its tools settled, as well; so
// are those of the other APIs that are read as chats, and as completions.
#include <nlohmann/json.hpp>

#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/generate/request.h"
#include "dialects/openai/ollama/request.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/request.h"
#include "dialects/openai/responses/responses.h"
#include "dialects/openai/scores/request.h"
#include "dialects/openai/tools.h"
#include "require.h"
#include "second_parser.h"
#include "support/text_models.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
using openai::Kind;

void check(const openai::Request& request) {
  const auto& params = request.params;
  require(request.n >= 1 && request.n <= openai::kMaxChoices, "n is in range");
  require(request.prompts.size() * request.n <= openai::kMaxInputs, "choices are bounded");
  require(!params.temperature || (*params.temperature >= 0 && *params.temperature <= 2), "temperature is in range");
  require(!params.top_p || (*params.top_p >= 0 && *params.top_p <= 1), "top_p is in range");
  require(params.stop.size() <= 16, "stop strings are bounded");
  require(!request.logprobs || *request.logprobs <= openai::kMaxLogprobs, "logprobs are bounded");
  for (const auto& range : request.readout_ranges) require(range.start < range.end, "ranges have a length");
}

void place(openai::Request& request, const msg::TextSpec& spec, Kind kind) {
  std::vector<openai::Sequence> made;
  if (!request.messages.empty()) {
    if (!openai::make_chat(request, spec, made.emplace_back(), {}).ok()) return;
    if (kind == Kind::kChat && openai::settle_tools(request, spec).ok() && request.calls_tools) {
      require(request.tool_choice != openai::ToolChoice::kNone, "tools are called where they may be");
      require(request.call_form.size() <= size_t(256) << 10, "forms are bounded");
    }
  } else {
    for (const auto& prompt : request.prompts)
      if (!openai::make_prompt(prompt, request, spec, "prompt", made.emplace_back(), {}).ok()) return;
  }
  for (auto& sequence : made) {
    for (const auto& image : sequence.images)
      require(image.start < image.end && image.end <= sequence.ids.size(), "an image lies in its prompt");
    msg::Generation generation;
    generation.append = std::move(sequence.ids);
    if (!marshal::apply(request.params, spec, generation).status.ok()) return;
    if (!marshal::apply_length(request.params, spec, kind == Kind::kChat ? 1u << 31 : 16, generation).status.ok())
      return;
    require(generation.length() + generation.max_tokens <= spec.max_length, "it fits the context");
    require(generation.min_tokens <= generation.max_tokens, "min_tokens is not above max_tokens");
    for (uint32_t id : generation.append) require(id < spec.vocabulary, "ids are in the vocabulary");
  }
}

// Ollama's, Anthropic's and the Responses API's chats.
void translated(std::string_view body, const msg::TextSpec& spec) {
  openai::ollama::ChatRequest ollama;
  if (openai::ollama::read_chat(body, ollama).ok() && !ollama.loads) place(ollama.request, spec, Kind::kChat);
  openai::Request anthropic, response;
  if (openai::anthropic::read_messages(body, anthropic).ok()) place(anthropic, spec, Kind::kChat);
  openai::responses::StoredResponses stored(std::chrono::hours(1), 1 << 20);
  if (!openai::responses::read_response(body, {&stored, 1, {}}, response).ok()) return;
  place(response, spec, Kind::kChat);
  require(nlohmann::json::accept("[" + response.turns + "]"), "what is stored is the inside of a list");
}

// SGLang's and Text Generation Inference's completions.
void generated(std::string_view body, const msg::TextSpec& spec) {
  using openai::generate::Route;
  for (Route route : {Route::kGenerate, Route::kStream, Route::kInvocations}) {
    openai::generate::Asked asked;
    openai::generate::read_generate(body, route, asked);
    if (!asked.error.ok()) {
      const auto error = asked.tgi ? openai::tgi_error_json(asked.error.status) : openai::error_json(asked.error);
      require(nlohmann::json::accept(error), "an error is JSON");
      continue;
    }
    if (asked.other) continue;  // a body of another route
    openai::Request& request = asked.request;
    check(request);
    require(request.prompts.size() * request.candidates() <= openai::kMaxChoices, "choices are bounded");
    require(!asked.tgi || request.prompts.size() == 1, "there is the text that the answer may repeat");
    const auto& ids = request.native.ids;
    require(ids.empty() || ids.size() == request.prompts.size(), "each text has an id");
    place(request, spec, Kind::kCompletion);
  }
}

// Rerank, score and classify.
void scored(std::string_view body) {
  using openai::scores::ScoreApi;
  for (ScoreApi form : {ScoreApi::kRerank, ScoreApi::kCohereRerank, ScoreApi::kScore, ScoreApi::kClassify}) {
    openai::scores::Request request;
    if (!openai::scores::read_request(body, form, request).ok()) continue;
    require(accepted_again(body), "a second parser accepts it too");
    require(request.rows() > 0 && request.rows() <= openai::scores::kMaxTexts, "texts are bounded");
    require(request.first.size() == 1 || request.first.size() == request.rows(), "each row has a first text");
    require(request.second.empty() == (form == ScoreApi::kClassify), "pairs have a second");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const msg::ModelSpec model = support::tools_spec("m", "{# <tool_call></think> #}");
  std::string_view body(reinterpret_cast<const char*>(data), size);
  for (Kind kind : {Kind::kChat, Kind::kCompletion, Kind::kEmbedding, Kind::kTokenize}) {
    openai::Request request;
    if (auto bad = openai::read_request(body, kind, request); !bad.ok()) {
      require(is_json(openai::error_json(bad)), "an error is JSON");
      continue;
    }
    require(accepted_again(body), "a second parser accepts it too");
    check(request);
    place(request, *model.text, kind);
  }
  translated(body, *model.text);
  generated(body, *model.text);
  scored(body);
  openai::Detokenize detokenize;
  (void)openai::read_detokenize(body, detokenize);
  return 0;
}
