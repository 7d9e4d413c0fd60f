// POST /pooling, as vLLM has it: {"input" or "messages", "task", …} has an answer
// {"id","object":"list","created","model", "data":[{"index","object":"pooling","data":[…]}],"usage"}. A vector of each
// text is offered, or, where the task is "classify", what a classifier gives for each label; those of its tokens are
// not.
#include <optional>

#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/scores/scores.h"
#include "dialects/openai/translation.h"

namespace weir::openai {
namespace {

struct PoolingRequest {
  Request embedding;
  std::optional<scores::Request> classification;  // in place of it
};

// `use_activation` asks for vectors of length 1; those of some models have it anyway.
ApiError translate_embedding(OrderedJson& body, Request& out) {
  const OrderedJson* activation = member(body, "use_activation");
  if (activation && !activation->is_boolean()) return refuse("use_activation", "use_activation must be true or false");
  out.unit_length = activation && activation->get<bool>();
  out.raw_vectors = activation && !activation->get<bool>();
  body.erase("use_activation");
  out.embedding_form = EmbeddingForm::kPooling;
  return read_translated(body, Kind::kEmbedding, out);
}

ApiError translate_pooling(OrderedJson& body, PoolingRequest& out) {
  const OrderedJson* task = member(body, "task");
  const bool classifies = task && *task == "classify";
  if (task && *task != "embed" && !classifies) return refuse("task", "task: \"embed\" and \"classify\" are offered");
  body.erase("task");
  if (!classifies) return translate_embedding(body, out.embedding);
  const OrderedJson* format = member(body, "encoding_format");
  if (format && *format != "float")
    return refuse("encoding_format", "encoding_format: \"float\" is offered for classes");
  body.erase("encoding_format");
  return scores::read_request(body.dump(), scores::ScoreApi::kPooling, out.classification.emplace());
}

void answer_pooling(OpenAiState& state, wire::Exchange& exchange, PoolingRequest&& request) {
  if (!request.classification) return embed_request(state, exchange, std::move(request.embedding));
  scores::score_texts(state, exchange, scores::ScoreApi::kPooling, *std::move(request.classification));
}

}  // namespace

void pooling(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_document<PoolingRequest>(
      state, exchange,
      [](std::string_view body, PoolingRequest& request) {
        return translate(body, [&](OrderedJson& object) { return translate_pooling(object, request); });
      },
      answer_pooling);
}

}  // namespace weir::openai
