// POST /rerank, /score, /classify: scores of texts by classifiers and rerankers (msg::TextSpec::labels).
// POST /generative_scoring: by models that make tokens.
#pragma once

#include "dialects/openai/scores/request.h"
#include "dialects/openai/state.h"
#include "wire/router.h"

namespace weir::openai::scores {

void rerank(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cohere_rerank(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // Cohere's second API
void classify(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
// generative.cc; SGLang's /score is of models that make tokens, vLLM's is not.
void score(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void generative(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
// A request that has been read.
void score_texts(OpenAiState& state, wire::Exchange& exchange, ScoreApi api, Request&& request);

}  // namespace weir::openai::scores
