// Changes that clients may make to stored objects: to conversations, and to the metadata of chat completions. Objects
// of other tenants are not found.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dialects/openai/api_error.h"
#include "dialects/openai/responses/stored.h"
#include "dialects/openai/state.h"
#include "dialects/openai/translation.h"

namespace weir::openai::responses {

// Returns the client's object with that id, as it is now; nothing: it has none.
std::optional<StoredResponse> find_stored(const OpenAiState& state, const wire::Exchange& exchange,
                                          const std::string& id, StoredKind kind);
// Deletes the client's object. False: it has none with that id.
bool remove_stored(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id, StoredKind kind);

// Applies `change` to the client's object. Errors: those of `change`; NOT_FOUND; INVALID_ARGUMENT with the code
// kTooLarge. Returns nothing if another request has changed it at the same time: it may be tried again, in another turn
// of the loop, since each try copies up to StoredResponses::kMostBytes.
inline constexpr std::string_view kTooLarge = "too_large";
using Edit = std::function<ApiError(StoredResponse&)>;
std::optional<ApiError> try_edit(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id,
                                 StoredKind kind, const Edit& change);
inline constexpr int kMostTries = 16;
ApiError edit_conflict();  // ABORTED

// Calls try_edit() up to kMostTries times, and then `then`, once, with the outcome, now or in a later turn, unless the
// exchange ends before. If it is later, the exchange has another ExchangeListener.
void edit_stored(OpenAiState& state, wire::Exchange& exchange, const std::string& id, StoredKind kind, Edit change,
                 std::function<void(ApiError)> then);

// Checks the `metadata` of an object that is to be stored: null, or an object of at most 16 strings. Errors: 400.
ApiError check_metadata(const OrderedJson* metadata);
// Reads a body whose only member is `metadata`, into `out` as JSON. Any thread. Errors: 400.
ApiError read_metadata(std::string_view body, std::string& out);
// Returns `object` (JSON) with `metadata` as its last member, in the place of those that it has.
std::string with_metadata(std::string_view object, std::string_view metadata);

}  // namespace weir::openai::responses
