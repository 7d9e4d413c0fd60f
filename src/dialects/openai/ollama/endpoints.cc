#include "dialects/openai/ollama/ollama.h"
#include "dialects/openai/ollama/request.h"
#include "dialects/openai/reading.h"
#include "marshal/json_tensor.h"

namespace weir::openai::ollama {
namespace {

using wire::Exchange;

// Models are loaded when the repository says so: there is nothing to do but to say whether it is there.
void tell_loaded(OpenAiState& state, Exchange& exchange, const ChatRequest& asked, std::string_view nothing) {
  auto [served, error] = find_model(state, exchange, asked.request.model, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  std::string out = answer_head(state, name_in_answer(asked.request.model, served->spec.name));
  out += nothing;
  out += asked.unloads ? R"(,"done":true,"done_reason":"unload"})" : R"(,"done":true,"done_reason":"load"})";
  respond_json(exchange, std::move(out));
}

void tell_no_embeddings(OpenAiState& state, Exchange& exchange, const Request& request) {
  tell_ignored(exchange, request);
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kEmbeddings);
  if (!error.ok()) return respond(exchange, error);
  std::string out = "{\"model\":";
  marshal::write_string(out, name_in_answer(request.model, served->spec.name));
  respond_json(exchange, out += R"(,"embeddings":[],"total_duration":0,"load_duration":0,"prompt_eval_count":0})");
}

}  // namespace

void chat(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<ChatRequest>(state, exchange, read_chat, [](OpenAiState& there, Exchange& x, ChatRequest&& asked) {
    if (asked.loads) return tell_loaded(there, x, asked, R"(,"message":{"role":"assistant","content":""})");
    answer(there, x, asked.kind, std::move(asked.request), chat_answer);
  });
}

void generate(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<ChatRequest>(state, exchange, read_generate, [](OpenAiState& there, Exchange& x, ChatRequest&& asked) {
    if (asked.loads) return tell_loaded(there, x, asked, R"(,"response":"")");
    answer(there, x, asked.kind, std::move(asked.request), generate_answer);
  });
}

void embed(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<ChatRequest>(state, exchange, read_embed, [](OpenAiState& there, Exchange& x, ChatRequest&& asked) {
    asked.loads ? tell_no_embeddings(there, x, asked.request) : embed_request(there, x, std::move(asked.request));
  });
}

void embeddings(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<Request>(state, exchange, read_embeddings, embed_request);
}

}  // namespace weir::openai::ollama
