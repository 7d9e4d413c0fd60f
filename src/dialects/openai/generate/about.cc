// The routes by which clients of SGLang and TGI ask for more than texts.
#include <atomic>

#include "dialects/openai/generate/generate.h"
#include "marshal/generation_params.h"
#include "marshal/json_tensor.h"

namespace weir::openai::generate {
namespace {

using wire::Exchange;

// The model that the query names, or that requests without a name mean; null: the refusal is out.
const bus::Served* asked_for(OpenAiState& state, Exchange& exchange) {
  auto [served, error] = find_model(state, exchange, exchange.request().query_value("model"), bus::Needs::kTokens);
  if (!error.ok()) respond(exchange, error);
  return served;
}

void write_model(std::string& out, const bus::Served& served) {
  out += "{\"model_path\":";
  marshal::write_string(out, served.spec.name);
  out += ",\"tokenizer_path\":";
  marshal::write_string(out, served.spec.name);
}

}  // namespace

void model_info(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  const bus::Served* served = asked_for(state, exchange);
  if (!served) return;
  std::string out;
  write_model(out, *served);
  out += ",\"is_generation\":true,\"preferred_sampling_params\":null,\"weight_version\":";
  marshal::write_string(out, served->spec.version);
  out += ",\"has_audio_understanding\":false,\"has_image_understanding\":";
  respond_json(exchange, out += tokens_of(served->spec)->vision ? "true}" : "false}");
}

// Those of SGLang's settings that mean something here. Clients read the first of internal_states.
void server_info(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  const bus::Served* served = asked_for(state, exchange);
  if (!served) return;
  std::string out;
  write_model(out, *served);
  out += ",\"served_model_name\":";
  marshal::write_string(out, served->spec.name);
  out += ",\"context_length\":" + std::to_string(tokens_of(served->spec)->max_length) + ",\"version\":";
  marshal::write_string(out, state.options.server_version);
  respond_json(exchange, out += ",\"internal_states\":[{}]}");
}

// Prompts from here on are in a cache of their own (cache_salt()). The blocks that nobody finds any more are those that
// are evicted first.
void flush_cache(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  state.load.cache_epoch.fetch_add(1, std::memory_order_relaxed);
  exchange.respond(200, "text/plain", base::Bytes::constant("Cache flushed.\n"));
}

void info(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  const bus::Served* served = asked_for(state, exchange);
  if (!served) return;
  const uint32_t length = tokens_of(served->spec)->max_length;
  std::string out = "{\"model_id\":";
  marshal::write_string(out, served->spec.name);
  out += ",\"model_sha\":null,\"model_pipeline_tag\":\"text-generation\",\"max_concurrent_requests\":";
  out += std::to_string(kMaxChoices) + ",\"max_best_of\":" + std::to_string(kMaxBestOf);
  out += ",\"max_stop_sequences\":" + std::to_string(marshal::kMaxStops);
  out += ",\"max_input_tokens\":" + std::to_string(length > 0 ? length - 1 : 0);
  out += ",\"max_total_tokens\":" + std::to_string(length) + ",\"validation_workers\":1,\"max_client_batch_size\":";
  out += std::to_string(kMaxChoices) + ",\"router\":\"weir\",\"version\":";
  marshal::write_string(out, state.options.server_version);
  respond_json(exchange, out += ",\"sha\":null,\"docker_label\":null}");
}

}  // namespace weir::openai::generate
