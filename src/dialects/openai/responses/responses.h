// OpenAI's Responses API, on the models and the text front of chats: POST /v1/responses.
//
// Reference: platform.openai.com/docs/api-reference/responses. A body becomes a chat (request.cc); its answer is a
// response of items, or the events that make one (answer.cc). Responses are not stored: `store: true` and what refers
// to a stored one are refused.
#pragma once

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"

namespace weir::openai::responses {

void create(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// request.cc: a body as a request of a chat; `Request::echoed` has the members that the answer repeats. Any thread.
// Errors: 400 naming the member.
ApiError read_response(std::string_view body, Request& out);

// answer.cc: who answers, as a stream and in one piece.
std::unique_ptr<Answer> response_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::responses
