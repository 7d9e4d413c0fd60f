// GET /slots: what runs. There are no slots here, whose state a sequence would leave behind: as many are listed as a
// request may have choices, and of these as many are busy as the model has sequences. What the requests of others say
// is not told.
#include <algorithm>

#include "dialects/openai/llama_cpp/llama_cpp.h"

namespace weir::openai::llama_cpp {
namespace {

size_t running_calls(const bus::Served& served) {
  int64_t calls = 0;
  for (const auto& cell : served.in_flight) calls += cell.calls.load(std::memory_order_relaxed);
  return size_t(std::max<int64_t>(calls, 0));
}

}  // namespace

void slots(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  auto [served, error] = find_model(state, exchange, exchange.request().query_value("model"), bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  const size_t busy = running_calls(*served);
  if (busy >= kMaxChoices && !exchange.request().query_value("fail_on_no_slot").empty())
    return respond(exchange, refuse(base::failure(base::Code::kUnavailable, "no slot available")));
  const std::string context = std::to_string(tokens_of(served->spec)->max_length);
  std::string out = "[";
  for (size_t i = 0; i < kMaxChoices; ++i) {
    out += (i > 0 ? ",{\"id\":" : "{\"id\":") + std::to_string(i) + ",\"id_task\":-1,\"n_ctx\":" + context;
    out += i < busy ? ",\"is_processing\":true}" : ",\"is_processing\":false}";
  }
  respond_json(exchange, out += ']');
}

void slot_action(OpenAiState&, wire::Exchange& exchange, const wire::PathArgs&) {
  respond(exchange, refuse(base::failure(base::Code::kUnimplemented,
                                         "This server does not support slots action: what is cached is no slot's")));
}

}  // namespace weir::openai::llama_cpp
