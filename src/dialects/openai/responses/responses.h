// OpenAI's Responses API, on the models and completions of chats: POST /v1/responses.
//
// Reference: platform.openai.com/docs/api-reference/responses. A body becomes a chat (request.cc); its answer is a
// response of items, or the events that make one (answer.cc). Responses are stored for a while (stored.h), unless
// `store` is false; previous_response_id goes on behind one, and an item_reference stands for an item of one. GET and
// DELETE /v1/responses/{id}; GET /v1/responses takes the same requests on a WebSocket (socket.h); GET
// /v1/responses/{id}/input_items; POST /v1/responses/input_tokens counts the tokens of what a body would ask. With
// `truncation: auto` the oldest turns go where a chat does not fit the context.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "dialects/openai/answer.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/responses/items.h"
#include "dialects/openai/responses/stored.h"
#include "session/shared_records.h"

namespace weir::openai::responses {

void create(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void count_input(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

void show(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void list_input_items(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void cancel(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void forget(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args);

// The client's stored responses, and those of them that a request needs.
struct StoredView {
  StoredResponses* stored = nullptr;  // null: nothing is stored
  uint64_t tenant = 0;
  base::Time now{};
  // Other nodes may have it: whoever goes on behind a response asks for it later (Request::previous). So does one that
  // is not found here, for the journal may have it.
  session::SharedRecords* records = nullptr;
  // Null: they have not been looked for, and reading says in Request::references which ones are wanted.
  std::shared_ptr<const Referenced> referenced;
  // The items of the request's conversation. Nothing: it has not been looked for, and reading says in
  // Request::conversation which one is wanted.
  std::optional<base::Bytes> conversation;
  // The responses that are not stored and that the request's WebSocket can go on behind. Nothing: the request came on
  // no WebSocket. The body of one that came on a WebSocket is a `response.create` event.
  std::optional<std::deque<std::string>> connection;
  std::string ids;  // hexadecimal digits for the ids of new items
};
StoredView stored_view(const OpenAiState& state, const wire::Exchange& exchange);

// shared.cc: the client's response, here and at the other nodes. `then` is called once, now or later, unless the
// exchange ends before; nothing: there is none. Later the Exchange has another ExchangeListener.
using FoundResponse = std::function<void(base::Result<std::optional<StoredResponse>>)>;
void find_response(OpenAiState& state, wire::Exchange& exchange, const std::string& id, FoundResponse then);
// The same for responses that only the journal has, too (put_off.h). One that is still being made has no turns yet, so
// no request can continue it.
struct KnownResponse {
  StoredResponse stored;
  enum class Progress : uint8_t { kUnderWay, kOver } progress = Progress::kOver;  // kUnderWay: elsewhere
};
using FoundKnown = std::function<void(base::Result<std::optional<KnownResponse>>)>;
void find_known(OpenAiState& state, wire::Exchange& exchange, const std::string& id, FoundKnown then);
// The same for a request that continues the response.
void find_turns(OpenAiState& state, wire::Exchange& exchange, const std::string& id, FoundResponse then);
// Deletes it everywhere. False: there is none.
void delete_response(OpenAiState& state, wire::Exchange& exchange, const std::string& id,
                     std::function<void(base::Result<bool>)> then);
// Stores the response here and for the other nodes. `then` is called once they can find it, or once it is known that
// they cannot for now.
void store_response(OpenAiState& state, wire::Exchange& exchange, const std::string& id, StoredResponse stored,
                    std::function<void()> then);
// The same for a response whose exchange is over. `stored.owner` must be set if there are other nodes. False: there is
// no room, and `then` is not called.
bool keep_response(OpenAiState& state, uint64_t tenant, const std::string& id, StoredResponse stored,
                   std::function<void()> then);
// Deletes the response here and at the other nodes, as if it had never been stored. Any thread.
void forget_everywhere(const Options& options, uint64_t tenant, const std::string& owner, const std::string& id,
                       base::Time now);
// Stores a response that no other node needs to find. False: there is no room.
bool keep_here(OpenAiState& state, uint64_t tenant, const std::string& id, StoredResponse stored);
// Writes and reads a response in the form in which the nodes of a cluster share it. The result of read_shared() shares
// the memory of `record`. Any thread.
std::string write_shared(const StoredResponse& stored);
std::optional<StoredResponse> read_shared(const base::Bytes& record);

// request.cc: reads a body as a request of a chat; `Request::echoed` gets the members that the answer repeats. If it
// sets `Request::references`, it has not read the rest, and must be called again with these responses in `stored`. Any
// thread. Errors: 400 naming the member, 404 naming an item that is not there.
ApiError read_response(std::string_view body, const StoredView& stored, Request& out);
// Adds the model's default sampling parameters to Request::echoed where the request has none, so that the answer shows
// the values in force. Call it once for each request.
void repeat_defaults(const msg::Sampling& defaults, Request& request);

// The two steps of a request whose body may refer to stored responses and conversations.
struct RequestSteps {
  ApiError (*read)(std::string_view body, const StoredView& stored, Request& out) = nullptr;
  void (*next)(OpenAiState& state, wire::Exchange& exchange, Request&& request) = nullptr;
};
// Reads the exchange's body with `read`. While that leaves references to be looked up (Request::references,
// conversation, previous), it gets what they refer to and reads again; then it calls `next`. It answers the request if
// a step fails.
void read_with_references(OpenAiState& state, wire::Exchange& exchange, RequestSteps steps);

ApiError no_such_response();
ApiError no_previous_response();
// Returns why a request cannot continue the response that was found for previous_response_id; OK if it can.
ApiError check_previous(const std::optional<StoredResponse>& found);

// answer.cc: makes the Answer, streamed or in one piece.
std::unique_ptr<Answer> response_answer(OpenAiState& state, wire::Exchange& exchange, Kind kind, Request request);

}  // namespace weir::openai::responses
