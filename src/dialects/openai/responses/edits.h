// Changes of what is stored, which clients may make: of conversations, and the metadata of chat completions.
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

// The client's, as it is now.
std::optional<StoredResponse> find_stored(const OpenAiState& state, const wire::Exchange& exchange,
                                          const std::string& id, StoredKind kind);
// False: the client has none.
bool remove_stored(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id, StoredKind kind);

// Changes the client's. Errors: of `change`; NOT_FOUND; INVALID_ARGUMENT with the code kTooLarge. Nothing: others have
// changed it at the same time. It may be tried again, with what they have made, in another turn of the loop: a try
// copies up to StoredResponses::kMostBytes.
inline constexpr std::string_view kTooLarge = "too_large";
using Edit = std::function<ApiError(StoredResponse&)>;
std::optional<ApiError> try_edit(const OpenAiState& state, const wire::Exchange& exchange, const std::string& id,
                                 StoredKind kind, const Edit& change);
inline constexpr int kMostTries = 16;
ApiError others_change_it();  // ABORTED

// Tries as often, and calls `then` once with what came of it, now or later, unless the exchange ends before. Later the
// exchange has another ExchangeListener.
void edit_stored(OpenAiState& state, wire::Exchange& exchange, const std::string& id, StoredKind kind, Edit change,
                 std::function<void(ApiError)> then);

// `metadata` of what is kept: null, or an object of at most 16 texts. Errors: 400.
ApiError check_metadata(const OrderedJson* metadata);
// The metadata of a body that has nothing else, as JSON. Any thread. Errors: 400.
ApiError read_metadata(std::string_view body, std::string& out);
// `object` (JSON), whose last member the metadata are or become.
std::string with_metadata(std::string_view object, std::string_view metadata);

}  // namespace weir::openai::responses
