// The routes, each answered by one function.
#pragma once

#include <string>
#include <string_view>

#include "dialects/openai/request.h"
#include "dialects/openai/state.h"
#include "wire/router.h"

namespace weir::openai {

using Serve = void (*)(OpenAiState&, wire::Exchange&, const wire::PathArgs&);

class Endpoint final : public wire::Service {
 public:
  Endpoint(OpenAiState& state, Serve serve) : state_(state), serve_(serve) {}
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  bool refuse(wire::Exchange& exchange, const base::Status& why) override;

 private:
  OpenAiState& state_;
  Serve serve_;
};

// Adds the names of the members that were ignored to the head of the answer, as `weir-ignored`, and to the log.
void tell_ignored(wire::Exchange& exchange, const Request& request);

// The {name} of a path, or {owner}/{name}; empty where it has neither.
std::string name_in_path(const wire::PathArgs& args, std::string_view name);
// The name in the paths of Azure OpenAI: it is the model.
inline constexpr std::string_view kDeployment = "deployment";

void chat_completions(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void completions(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void health(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void version(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void load(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void embeddings(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);   // embeddings.cc
void embed_request(OpenAiState& state, wire::Exchange& exchange, Request&& request);         // one that has been read
void pooling(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);      // pooling.cc
void embed_lists(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // embed_requests.cc
void llama_embedding(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cohere_embed_v1(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cohere_embed(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void tokenize(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // tokenize.cc
void detokenize(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void tokenizer_info(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_models(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);   // models.cc
void load_adapter(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // adapters.cc
void unload_adapter(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show_model(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::openai
