// POST /tokenize and /detokenize, as vLLM has them.
#include <utility>

#include "dialects/openai/choice_delta.h"
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/task.h"
#include "marshal/json_tensor.h"
#include "msg/text_codec.h"

namespace weir::openai {
namespace {

class TokenizeTask final : public PromptTask {
 public:
  using PromptTask::PromptTask;

  void made() override {
    const auto& ids = prompts_.front().ids;
    json_ = "{\"count\":" + std::to_string(ids.size());
    json_ += ",\"max_model_len\":" + std::to_string(spec_->max_length) + ",\"tokens\":";
    write_ids(json_, ids);
    json_ += ",\"token_strs\":";
    json_ += request_.token_strings ? strings(ids) : "null";
    json_ += '}';
  }
  void then(OpenAiState&, wire::Exchange& exchange, bus::Served&) override { respond_json(exchange, std::move(json_)); }

 private:
  std::string strings(const std::vector<uint32_t>& ids) const {
    std::string out = "[";
    for (uint32_t id : ids) {
      if (out.size() > 1) out += ',';
      marshal::write_string(out, spec_->codec->piece(id));
    }
    return out + "]";
  }

  std::string json_;
};

class DetokenizeTask final : public Task {
 public:
  DetokenizeTask(Detokenize request, const bus::Served& served)
      : request_(std::move(request)), spec_(held_tokens(served)) {}

  void run() override {
    for (uint32_t id : request_.tokens)
      if (id >= spec_->vocabulary) {
        error = refuse("tokens", "tokens: token id " + std::to_string(id) + " is not below " +
                                     std::to_string(spec_->vocabulary) + ", the size of the vocabulary");
        return;
      }
    json_ = "{\"prompt\":";
    marshal::write_string(json_, spec_->codec->decode(request_.tokens, msg::SkipSpecial::kNo));
    json_ += '}';
  }
  void then(OpenAiState&, wire::Exchange& exchange, bus::Served&) override { respond_json(exchange, std::move(json_)); }

 private:
  const Detokenize request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  std::string json_;
};

void tokenize_text(OpenAiState& state, wire::Exchange& exchange, Request&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kText);
  if (!error.ok()) return respond(exchange, error);
  auto task = std::make_unique<TokenizeTask>(Kind::kTokenize, std::move(request), exchange, *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

void join_tokens(OpenAiState& state, wire::Exchange& exchange, Detokenize&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kText);
  if (!error.ok()) return respond(exchange, error);
  auto task = std::make_unique<DetokenizeTask>(std::move(request), *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

}  // namespace

void tokenize(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_body<Request>(
      state, exchange,
      [](std::string_view body, Request& request) { return read_request(body, Kind::kTokenize, request); },
      tokenize_text);
}

void detokenize(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_body<Detokenize>(state, exchange, read_detokenize, join_tokens);
}

}  // namespace weir::openai
