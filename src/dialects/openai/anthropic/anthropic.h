// Anthropic's Messages API, on the models and completions of OpenAI's: POST /v1/messages and
// /v1/messages/count_tokens, and its list of models.
//
// Reference: docs.anthropic.com/en/api/messages. A last message of the assistant is continued. Instructions may stand
// among the messages, too (role system). Images come in base64; nothing is fetched from elsewhere. Marks for a cache
// (cache_control) change nothing: prefixes are cached as they come. max_tokens is cut to what the context has left, as
// Anthropic's newer models have it: an answer that gets there stops for "model_context_window_exceeded".
//
// Clients send members that newer versions of the API have: one that nobody here knows is passed over, and named in
// the answer's field weir-ignored, as is an unknown type of thinking. Members that have Anthropic's servers act beside
// the model (mcp_servers, …) are refused, and so is a name that is one letter away from one that is read.
#pragma once

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::anthropic {

void messages(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void count_tokens(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// models.cc: the answers to GET /v1/models[/{id}] of a request that asks() as Anthropic's clients do.
bool asks(const wire::Exchange& exchange);
void list_models(OpenAiState& state, wire::Exchange& exchange);
void show_model(OpenAiState& state, wire::Exchange& exchange, std::string_view name);
// Ends a page of a list, `{"data":[…`; no ids: it is empty.
void end_page(std::string& out, bool more, std::string_view first_id, std::string_view last_id);

// request.cc: a body as a request of OpenAI's. A count needs no max_tokens. Any thread. Errors: 400 naming the member.
ApiError read_messages(std::string_view body, Request& out);
ApiError read_count(std::string_view body, Request& out);

// answer.cc: makes the Answer to /v1/messages, streamed or in one piece.
std::unique_ptr<Answer> message_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::anthropic
