// Ollama's API, on the models and completions of OpenAI's: /api/chat, /api/generate, /api/embed, /api/embeddings,
// /api/tags, /api/show, /api/ps, /api/version, /api/pull. Streams are lines of JSON (NDJSON).
//
// Reference: github.com/ollama/ollama, v0.13.5, docs/api.md and server/routes.go. A model is called by its name or by
// "name:latest". Models come from the repository's folder: what makes, copies or removes one is refused. Accounts at
// ollama.com (/api/me, /api/signout) are not served.
#pragma once

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::ollama {

// Ollama's version whose API this is. Clients refuse servers that are older than what they need of it.
inline constexpr std::string_view kVersion = "0.13.5";

void chat(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void generate(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void embed(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void embeddings(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void tags(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);  // models.cc, as the next
void ps(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void pull(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
// models.cc: kVersion, not this server's.
void version(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void refuse_change(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// answer.cc: these make the Answers to /api/chat and /api/generate, streamed or in one piece.
std::unique_ptr<Answer> chat_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);
std::unique_ptr<Answer> generate_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);
// `{"model":…,"created_at":…`, the beginning of every object that answers.
std::string answer_head(const OpenAiState& state, std::string_view model);

}  // namespace weir::openai::ollama
