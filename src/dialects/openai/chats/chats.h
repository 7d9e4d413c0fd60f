// Stored chat completions: those of requests with `store: true`.
//
//   GET /chat/completions?model=…&metadata[key]=…     GET, DELETE /chat/completions/{id}; POST: {"metadata"}
//   GET /chat/completions/{id}/messages
// Reference: platform.openai.com/docs/api-reference/chat/list. One is kept where stored responses are
// (responses/stored.h), for openai.response_ttl, in their memory, and is its tenant's alone. No other node of a cluster
// knows it. Where nothing is stored `store` changes nothing.
#pragma once

#include <string>
#include <string_view>

#include "dialects/openai/endpoints.h"

namespace weir::openai::chats {

void list(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void update(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void forget(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_messages(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// Whether keep() keeps a completion of so many bytes.
bool are_kept(const OpenAiState& state, const Request& request, uint64_t bytes);
// Checks the metadata of a request that is to be stored. Any thread. Errors: 400.
ApiError check_stored(const Request& request);
// Keeps the answer to the request (JSON), if there is room.
void keep(OpenAiState& state, const wire::Exchange& exchange, const Request& request, const std::string& id,
          std::string_view model, std::string_view completion);

}  // namespace weir::openai::chats
