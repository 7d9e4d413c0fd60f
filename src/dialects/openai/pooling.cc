// POST /pooling, as vLLM has it: {"input" or "messages", "task", …} has an answer
// {"id","object":"list","created","model", "data":[{"index","object":"pooling","data":[…]}],"usage"}. A vector of each
// text is offered; those of its tokens are not, and for classes there is /classify.
#include "dialects/openai/endpoints.h"
#include "dialects/openai/reading.h"
#include "dialects/openai/translation.h"

namespace weir::openai {
namespace {

// `use_activation` asks for vectors of length 1; those of some models have it anyway.
ApiError translate_pooling(OrderedJson& body, Request& out) {
  const OrderedJson* task = member(body, "task");
  if (task && *task != "embed")
    return refuse("task", "task: \"embed\" is offered; for classes of texts there is /classify");
  const OrderedJson* activation = member(body, "use_activation");
  if (activation && !activation->is_boolean()) return refuse("use_activation", "use_activation must be true or false");
  out.unit_length = activation && activation->get<bool>();
  out.raw_vectors = activation && !activation->get<bool>();
  body.erase("task"), body.erase("use_activation");
  out.embedding_form = EmbeddingForm::kPooling;
  return read_translated(body, Kind::kEmbedding, out);
}

}  // namespace

void pooling(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  read_document<Request>(
      state, exchange,
      [](std::string_view body, Request& request) {
        return translate(body, [&](OrderedJson& object) { return translate_pooling(object, request); });
      },
      embed_request);
}

}  // namespace weir::openai
