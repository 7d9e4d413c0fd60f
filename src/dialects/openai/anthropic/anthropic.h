// Anthropic's Messages API, on the models and completions of OpenAI's: POST /v1/messages and
// /v1/messages/count_tokens.
//
// Reference: docs.anthropic.com/en/api/messages. A last message of the assistant is continued. Images come in base64;
// nothing is fetched from elsewhere. Marks for a cache (cache_control) change nothing: prefixes are cached as they
// come.
#pragma once

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::anthropic {

void messages(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void count_tokens(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// request.cc: a body as a request of OpenAI's. A count needs no max_tokens. Any thread. Errors: 400 naming the member.
ApiError read_messages(std::string_view body, Request& out);
ApiError read_count(std::string_view body, Request& out);

// answer.cc: who answers /v1/messages, as a stream and in one piece.
std::unique_ptr<Answer> message_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::anthropic
