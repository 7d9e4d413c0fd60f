#include "dialects/openai/reading.h"
#include "dialects/openai/responses/responses.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

ApiError no_such_response() {
  return {base::failure(base::Code::kNotFound, "there is no such response, or no more"), "response_id",
          "response_not_found"};
}

}  // namespace

StoredView stored_view(const OpenAiState& state, const Exchange& exchange) {
  return {state.options.stored, marshal::tenant_of(exchange.request()), state.bus.env().now()};
}

void create(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange,
      [stored = stored_view(state, exchange)](std::string_view body, Request& request) {
        return read_response(body, stored, request);
      },
      [](OpenAiState& there, Exchange& x, Request&& request) {
        answer(there, x, Kind::kChat, std::move(request), response_answer);
      });
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const StoredView view = stored_view(state, exchange);
  auto found = view.stored ? view.stored->find(view.tenant, std::string(args["response"]), view.now) : std::nullopt;
  if (!found) return respond(exchange, no_such_response());
  respond_json(exchange, *found->response);
}

void forget(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  const StoredView view = stored_view(state, exchange);
  const std::string id(args["response"]);
  if (!view.stored || !view.stored->remove(view.tenant, id, view.now)) return respond(exchange, no_such_response());
  std::string out = "{\"id\":";
  marshal::write_string(out, id);
  respond_json(exchange, out += R"(,"object":"response","deleted":true})");
}

}  // namespace weir::openai::responses
