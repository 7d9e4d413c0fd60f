// OpenAI's Responses API, on the models and completions of chats: POST /v1/responses.
//
// Reference: platform.openai.com/docs/api-reference/responses. A body becomes a chat (request.cc); its answer is a
// response of items, or the events that make one (answer.cc). Responses are stored for a while (stored.h), unless
// `store` is false; previous_response_id goes on behind one. GET and DELETE /v1/responses/{id}.
#pragma once

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/responses/stored.h"

namespace weir::openai::responses {

void create(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

void show(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void forget(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// Where the client's stored responses are.
struct StoredView {
  StoredResponses* stored = nullptr;  // null: nothing is stored
  uint64_t tenant = 0;
  base::Time now{};
};
StoredView stored_view(const OpenAiState& state, const wire::Exchange& exchange);

// request.cc: a body as a request of a chat; `Request::echoed` has the members that the answer repeats. Any thread.
// Errors: 400 naming the member.
ApiError read_response(std::string_view body, const StoredView& stored, Request& out);

// answer.cc: who answers, as a stream and in one piece.
std::unique_ptr<Answer> response_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::responses
