#include "dialects/openai/count.h"

#include <memory>
#include <utility>

#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"

namespace weir::openai {
namespace {

using Written = std::string (*)(size_t);

class CountTask final : public PromptTask {
 public:
  CountTask(Request request, const wire::Exchange& exchange, const bus::Served& served, Written written)
      : PromptTask(Kind::kChat, std::move(request), exchange, served), written_(written) {}

  void made() override { tokens_ = prompts_.front().ids.size(); }
  void then(OpenAiState&, wire::Exchange& exchange, bus::Served&) override {
    respond_json(exchange, written_(tokens_));
  }

 private:
  const Written written_;
  size_t tokens_ = 0;
};

}  // namespace

void count_prompt(OpenAiState& state, wire::Exchange& exchange, Request&& request, Written written) {
  tell_ignored(exchange, request);
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  const size_t bytes = prompt_bytes(exchange, request);
  perform(state, exchange, *served, std::make_unique<CountTask>(std::move(request), exchange, *served, written), bytes);
}

void count_chat(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange, [](std::string_view body, Request& request) { return read_request(body, Kind::kChat, request); },
      [](OpenAiState& there, wire::Exchange& x, Request&& request) {
        count_prompt(there, x, std::move(request), [](size_t tokens) {
          return R"({"object":"response.input_tokens","input_tokens":)" + std::to_string(tokens) + '}';
        });
      });
}

}  // namespace weir::openai
