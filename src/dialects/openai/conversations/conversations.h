// OpenAI's Conversations API: lists of items that responses go on behind, and are added to (`conversation` of
// POST /v1/responses).
//
//   POST /conversations {"items","metadata"}     GET, DELETE /conversations/{id}; POST: {"metadata"}
//   POST /conversations/{id}/items {"items"}     GET /conversations/{id}/items[/{item}]; DELETE …/items/{item}
// Reference: platform.openai.com/docs/api-reference/conversations. One is kept where stored responses are
// (responses/stored.h), for openai.response_ttl behind its last change, in their memory, and is its tenant's alone. No
// other node of a cluster knows it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "dialects/openai/endpoints.h"
#include "dialects/openai/responses/stored.h"
#include "dialects/openai/translation.h"

namespace weir::openai::conversations {

inline constexpr size_t kMostAdded = 20;  // items of one request, as OpenAI has it

void create(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void update(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void forget(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void add_items(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_items(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void show_item(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void delete_item(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

ApiError no_such_conversation();
ApiError conversation_is_full(const char* param = "conversation");
// Whether the client's conversation could take the items and an answer to them, which are added once it is there.
// Errors: 404; 400: it is full.
ApiError check_room(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id,
                    std::string_view items);
// Adds items, the inside of a JSON list, to the client's conversation. Errors: ABORTED: it is gone; INVALID_ARGUMENT:
// it is full. Nothing: it is worth another try (responses::try_edit()).
std::optional<ApiError> append_items(OpenAiState& state, const wire::Exchange& exchange, const std::string& id,
                                     std::string_view items);

// items.cc: any thread.
// The items of a request (a list, or the text of a user) as a conversation keeps them, each with an id of its own: the
// inside of a JSON list. `ids`: hexadecimal digits that no other request has.
std::string kept_items(const OrderedJson& items, std::string_view ids);

}  // namespace weir::openai::conversations
