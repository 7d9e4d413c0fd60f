// POST /rerank, /score, /classify: scores of texts by classifiers and rerankers (msg::TextSpec::labels).
// POST /generative_scoring: by models that make tokens.
#pragma once

#include "dialects/openai/state.h"
#include "wire/router.h"

namespace weir::openai::scores {

void rerank(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cohere_rerank(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // Cohere's second API
void score(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void generative(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // generative.cc
void classify(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

}  // namespace weir::openai::scores
