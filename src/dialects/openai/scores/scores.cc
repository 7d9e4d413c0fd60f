#include "dialects/openai/scores/scores.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "dialects/openai/reading.h"
#include "dialects/openai/row_calls.h"
#include "dialects/openai/scores/answer.h"
#include "dialects/openai/scores/request.h"
#include "dialects/openai/scores/texts.h"
#include "dialects/openai/task.h"
#include "marshal/check.h"
#include "marshal/encoder.h"
#include "msg/text_codec.h"
#include "wire/answer_flow.h"

namespace weir::openai::scores {
namespace {

using wire::Exchange;
using Ids = std::vector<uint32_t>;

constexpr size_t kScoreWindow = 64;  // Calls of one request at once

class Scores final : public RowCalls {
 public:
  Scores(OpenAiState& state, Exchange& exchange, ScoreApi api, Request request, Texts texts)
      : RowCalls(state, exchange, bus::Needs::kScores, request.priority),
        request_(std::move(request)),
        texts_(std::move(texts)),
        scored_{request_, api, {}, {}} {}

  void start(const bus::Served& served) {
    labels_ = served.spec.outputs.at(0).labels;
    scored_.labels = labels_;
    const size_t rows = request_.rows(), values = rows * labels_.size();
    uint64_t charged = 0;
    const uint64_t bytes = texts_.bytes() + request_.bytes() + bytes_of_rows(rows) + rows * sizeof sizes_[0] +
                           values * sizeof scored_.values[0];
    if (!gathered_.grow(charged, bytes)) return fail(wire::no_room_for_answer());
    scored_.values.resize(values);
    sizes_.resize(rows);
    begin(served, rows, {kScoreWindow});
  }

 private:
  base::Result<uint64_t> fill(msg::Call& call, const msg::ModelSpec& spec, size_t row) override {
    const Ids& first = texts_.first[texts_.first.size() == 1 ? 0 : row];
    msg::TokenPair pair;
    if (texts_.second.empty())
      pair.ids = std::move(texts_.first[row]);
    else
      pair = spec.encoder->codec->join_pair(first, std::exchange(texts_.second[row], {}), texts_.most);
    tokens_ += sizes_[row] = pair.ids.size();
    call.inputs.push_back(marshal::ids_tensor(spec.inputs.at(0).name, pair.ids));
    // A model without types has no such input.
    if (spec.inputs.size() > 2 && !pair.types.empty())
      call.inputs.push_back(marshal::ids_tensor(spec.inputs.at(2).name, pair.types));
    output_ = spec.outputs.at(request_.activation ? 0 : 1).name;
    call.outputs = {output_};
    if (base::Status bad = marshal::check_call(spec, call); !bad.ok()) return bad;
    return sizes_[row];
  }

  base::Status take(size_t row, const msg::Event& event) override {
    const auto values = std::span(scored_.values).subspan(row * labels_.size(), labels_.size());
    const msg::Outputs* outputs = final_outputs(event);
    const msg::Tensor* found = nullptr;
    for (const msg::Tensor& tensor : outputs ? outputs->tensors : std::span<const msg::Tensor>())
      if (tensor.name == output_) found = &tensor;
    if (!found || found->dtype != msg::DType::kFp32 || found->data.size() != values.size_bytes())
      return base::failure(base::Code::kInternal, "the model gave no scores");
    std::memcpy(values.data(), found->data.data(), values.size_bytes());
    tokens_ += marshal::counted_tokens(*outputs).value_or(sizes_[row]) - sizes_[row];
    return {};
  }

  void finish() override {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(state_.bus.env().wall().time_since_epoch());
    std::string out =
        write_answer(scored_, {request_.request_id.empty() ? random_id(state_.bus, 24) : request_.request_id,
                               std::string(name_in_answer(request_.model, model_)), now.count(), tokens_});
    gathered_.release();
    respond_json(exchange_, std::move(out));
  }

  const Request request_;
  Texts texts_;
  std::string output_;
  std::vector<std::string> labels_;
  std::vector<uint64_t> sizes_;  // ids of each row
  Scored scored_;
  uint64_t tokens_ = 0;  // as they count for the answer
};

// Texts become ids.
class ScoresTask final : public Task {
 public:
  ScoresTask(ScoreApi api, Request request, const bus::Served& served)
      : api_(api), request_(std::move(request)), spec_(held_tokens(served)) {}

  void run() override { error = encode_texts(request_, api_, *spec_, cancelled(), texts_); }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto reader = std::make_unique<Scores>(state, exchange, api_, std::move(request_), std::move(texts_));
    Scores& running = *reader;
    exchange.attach(std::move(reader));
    running.start(served);
  }

 private:
  const ScoreApi api_;
  Request request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  Texts texts_;
};

}  // namespace

void score_texts(OpenAiState& state, Exchange& exchange, ScoreApi api, Request&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kScores);
  if (!error.ok()) return respond(exchange, error);
  const uint32_t labels = served->spec.encoder->labels;
  if (!classifies(api) && labels != 1)
    return respond(exchange, refuse("model", "model '" + served->spec.name + "' gives " + std::to_string(labels) +
                                                 " scores of a text, and a reranker one: ask /classify"));
  if (!request.activation && served->spec.outputs.size() < 2)
    return respond(exchange, refuse("activation", "activation: model '" + served->spec.name + "' gives scores alone"));
  // How long a document may be is its origin's to say.
  if (served->spec.encoder->remote_chat) request.document_tokens.reset();
  if (served->spec.encoder->remote_chat && request.truncate)
    return respond(exchange, refuse("truncate_prompt_tokens", "another server has this model's tokens"));
  if (request.rows() * labels > kMaxScores)
    return respond(exchange, refuse("input", "input: at most " + std::to_string(kMaxScores) +
                                                 " scores in one request, texts × labels"));
  auto task = std::make_unique<ScoresTask>(api, std::move(request), *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

namespace {

template <ScoreApi api>
void serve(OpenAiState& state, Exchange& exchange) {
  read_body<Request>(
      state, exchange, [](std::string_view body, Request& request) { return read_request(body, api, request); },
      [](OpenAiState& there, Exchange& x, Request&& request) { score_texts(there, x, api, std::move(request)); });
}

}  // namespace

void rerank(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  serve<ScoreApi::kRerank>(state, exchange);
}
void cohere_rerank(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  serve<ScoreApi::kCohereRerank>(state, exchange);
}
void classify(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  serve<ScoreApi::kClassify>(state, exchange);
}

}  // namespace weir::openai::scores
