// POST /tokenize and /detokenize, as vLLM has them.
#include "dialects/openai/endpoints.h"
#include "dialects/openai/piece.h"
#include "dialects/openai/prompt.h"
#include "marshal/json_tensor.h"
#include "text/processor.h"

namespace weir::openai {
namespace {

Refusal no_tokenizer() { return refuse("model", "this model has no tokenizer here: it takes token ids"); }

}  // namespace

void tokenize(House& house, wire::Exchange& exchange, const wire::PathArgs&) {
  Request request;
  if (Refusal bad = read_request(exchange.content().view(), Kind::kTokenize, request); !bad.ok())
    return respond(exchange, bad);
  auto [served, refusal] = find_model(house, exchange, request.model, Wants::kToTake);
  if (!refusal.ok()) return respond(exchange, refusal);
  const msg::TextSpec& spec = *tokens_of(served->spec);
  if (!spec.processor) return respond(exchange, no_tokenizer());
  Sequence sequence;
  if (request.messages.empty())
    refusal = make_prompt(request.prompts.front(), request, spec, "prompt", sequence);
  else
    refusal = make_chat(request, spec, sequence);
  if (!refusal.ok()) return respond(exchange, refusal);
  std::string out = "{\"count\":" + std::to_string(sequence.ids.size());
  out += ",\"max_model_len\":" + std::to_string(spec.max_length) + ",\"tokens\":";
  write_ids(out, sequence.ids);
  out += ",\"token_strs\":";
  if (!request.token_strings) return respond_json(exchange, out + "null}");
  for (char separator = '['; uint32_t id : sequence.ids) {
    out += std::exchange(separator, ',');
    marshal::write_string(out, spec.processor->tokenizer->piece(id));
  }
  respond_json(exchange, out + (sequence.ids.empty() ? "[]}" : "]}"));
}

void detokenize(House& house, wire::Exchange& exchange, const wire::PathArgs&) {
  Detokenize request;
  if (Refusal bad = read_detokenize(exchange.content().view(), request); !bad.ok()) return respond(exchange, bad);
  auto [served, refusal] = find_model(house, exchange, request.model, Wants::kToTake);
  if (!refusal.ok()) return respond(exchange, refusal);
  const msg::TextSpec& spec = *tokens_of(served->spec);
  if (!spec.processor) return respond(exchange, no_tokenizer());
  for (uint32_t id : request.tokens)
    if (id >= spec.vocabulary)
      return respond(exchange, refuse("tokens", "tokens: token id " + std::to_string(id) + " is not below " +
                                                    std::to_string(spec.vocabulary) + ", the size of the vocabulary"));
  std::string out = "{\"prompt\":";
  marshal::write_string(out, spec.processor->tokenizer->decode(request.tokens, text::SkipSpecial::kNo));
  respond_json(exchange, out + "}");
}

}  // namespace weir::openai
