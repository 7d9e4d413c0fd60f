#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/count.h"
#include "dialects/openai/reading.h"

namespace weir::openai::anthropic {

using wire::Exchange;

void messages(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<Request>(state, exchange, read_messages, [](OpenAiState& there, Exchange& x, Request&& request) {
    answer(there, x, Kind::kChat, std::move(request), message_answer);
  });
}

void count_tokens(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_document<Request>(state, exchange, read_count, [](OpenAiState& there, Exchange& x, Request&& request) {
    count_prompt(there, x, std::move(request),
                 [](size_t tokens) { return "{\"input_tokens\":" + std::to_string(tokens) + '}'; });
  });
}

}  // namespace weir::openai::anthropic
