#include <memory>
#include <utility>

#include "base/memory_ledger.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "wire/answer_flow.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

ApiError no_such_response() {
  return {base::failure(base::Code::kNotFound, "there is no such response, or no more"), "response_id",
          "response_not_found"};
}

// This node's own is charged for as long as it is used, too. A record of another one is charged already. False: there
// is no room.
bool charge(Exchange& exchange, base::Bytes& text) {
  return base::charge(exchange.memory(), base::MemoryKind::kInput, text);
}

void go_on(OpenAiState& state, Exchange& exchange, Request&& request);

// Responses that items of a body refer to, on the way.
struct Lookup {
  std::vector<std::string> wanted;
  Referenced found;
  size_t bytes = 0;
};

void read_again(OpenAiState& state, Exchange& exchange, const std::shared_ptr<Lookup>& lookup) {
  StoredView view = stored_view(state, exchange);
  view.referenced = {lookup, &lookup->found};
  read_body<Request>(
      state, exchange, [view](std::string_view body, Request& request) { return read_response(body, view, request); },
      go_on, lookup->bytes);
}

// One after the other, so that no more than one question of a request is with the other nodes.
void find_referenced(OpenAiState& state, Exchange& exchange, std::shared_ptr<Lookup> lookup) {
  if (lookup->wanted.empty()) return read_again(state, exchange, lookup);
  const std::string id = std::move(lookup->wanted.back());
  lookup->wanted.pop_back();
  find_response(state, exchange, id,
                [&state, &exchange, id, lookup](base::Result<std::optional<StoredResponse>> found) {
                  if (!found) return respond(exchange, {found.error(), "input", {}});
                  base::Bytes& response = lookup->found[id];
                  if (*found) response = std::move((*found)->response);
                  if (!charge(exchange, response)) return respond(exchange, refuse(wire::no_room_for_answer()));
                  if ((lookup->bytes += response.size()) > kMostReferencedBytes)
                    return respond(exchange, refuse("input", "input: the responses that it refers to are too long"));
                  find_referenced(state, exchange, lookup);
                });
}

// Behind the responses that it names, which other nodes may have.
void go_on(OpenAiState& state, Exchange& exchange, Request&& request) {
  if (!request.references.empty()) {
    auto lookup = std::make_shared<Lookup>();
    lookup->wanted = std::move(request.references);
    return find_referenced(state, exchange, std::move(lookup));
  }
  if (request.previous.empty()) return answer(state, exchange, Kind::kChat, std::move(request), response_answer);
  auto waiting = std::make_shared<Request>(std::move(request));
  const std::string id = waiting->previous;
  find_response(state, exchange, id, [&state, &exchange, waiting](base::Result<std::optional<StoredResponse>> found) {
    if (!found) return respond(exchange, {found.error(), "previous_response_id", {}});
    if (!*found) return respond(exchange, no_previous_response());
    waiting->earlier = std::move((*found)->turns);
    if (!charge(exchange, waiting->earlier)) return respond(exchange, refuse(wire::no_room_for_answer()));
    answer(state, exchange, Kind::kChat, std::move(*waiting), response_answer);
  });
}

}  // namespace

StoredView stored_view(const OpenAiState& state, const Exchange& exchange) {
  return {state.options.stored, marshal::tenant_of(exchange.request()), state.bus.env().now(), state.options.records,
          nullptr};
}

void create(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange,
      [stored = stored_view(state, exchange)](std::string_view body, Request& request) {
        return read_response(body, stored, request);
      },
      go_on);
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  find_response(state, exchange, std::string(args["response"]), [&exchange](auto found) {
    if (!found) return respond(exchange, refuse(found.error()));
    if (!*found) return respond(exchange, no_such_response());
    respond_json(exchange, std::move((*found)->response));
  });
}

void forget(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const std::string id(args["response"]);
  delete_response(state, exchange, id, [&exchange, id](base::Result<bool> deleted) {
    if (!deleted) return respond(exchange, refuse(deleted.error()));
    if (!*deleted) return respond(exchange, no_such_response());
    std::string out = "{\"id\":";
    marshal::write_string(out, id);
    respond_json(exchange, out += R"(,"object":"response","deleted":true})");
  });
}

}  // namespace weir::openai::responses
