#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"

namespace weir::openai::anthropic {
namespace {

using wire::Exchange;

class CountTask final : public PromptTask {
 public:
  using PromptTask::PromptTask;

  void made() override { tokens_ = prompts_.front().ids.size(); }
  void then(OpenAiState&, Exchange& exchange, bus::Served&) override {
    respond_json(exchange, "{\"input_tokens\":" + std::to_string(tokens_) + '}');
  }

 private:
  size_t tokens_ = 0;
};

}  // namespace

void messages(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(state, exchange, read_messages, [](OpenAiState& there, Exchange& x, Request&& request) {
    answer(there, x, Kind::kChat, std::move(request), message_answer);
  });
}

void count_tokens(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(state, exchange, read_count, [](OpenAiState& there, Exchange& x, Request&& request) {
    auto [served, error] = find_model(there, x, request.model, bus::Needs::kTokens);
    if (!error.ok()) return respond(x, error);
    auto task = std::make_unique<CountTask>(Kind::kChat, std::move(request), x, *served);
    perform(there, x, *served, std::move(task), x.content().size());
  });
}

}  // namespace weir::openai::anthropic
