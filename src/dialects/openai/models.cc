// GET /v1/models[/{id}]: the models of text and the encoders, as OpenAI's clients want them, with what vLLM adds
// (max_model_len) and what a model can tell of itself here (readouts, images).
#include "dialects/openai/endpoints.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::openai {
namespace {

void write_model(std::string& out, const OpenAiState& state, const msg::ModelSpec& spec) {
  const msg::TextSpec& text = *tokens_of(spec);
  out += "{\"id\":";
  marshal::write_string(out, spec.name);
  out += ",\"object\":\"model\",\"created\":" + std::to_string(state.created) + ",\"owned_by\":\"weir\",\"root\":";
  marshal::write_string(out, spec.name);
  out += ",\"parent\":null,\"max_model_len\":" + std::to_string(text.max_length);
  out += ",\"embedding_size\":" + std::to_string(text.hidden_size);
  out += text.vision ? ",\"images\":true" : ",\"images\":false";
  if (!text.concepts.empty()) {
    out += ",\"readouts\":{\"layers\":[";
    for (uint32_t layer : text.readout_layers) out += (out.back() == '[' ? "" : ",") + std::to_string(layer);
    out += "],\"concepts\":[";
    for (const auto& concept_name : text.concepts) {
      if (out.back() != '[') out += ',';
      marshal::write_string(out, concept_name);
    }
    out += "],\"dtype\":";
    marshal::write_string(out, text.readout_dtype);
    out += '}';
  }
  out += '}';
}

}  // namespace

void list_models(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const auto& [name, model] : state.bus.catalog(marshal::models_of(exchange.request())).models) {
    if (!model.preferred || !tokens_of(model.preferred->spec)) continue;
    if (out.back() != '[') out += ',';
    write_model(out, state, model.preferred->spec);
  }
  respond_json(exchange, out + "]}");
}

void show_model(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args) {
  auto [served, error] = find_model(state, exchange, args["model"], bus::Needs::kEmbeddings);
  if (!error.ok()) return respond(exchange, error);
  std::string out;
  write_model(out, state, served->spec);
  respond_json(exchange, std::move(out));
}

}  // namespace weir::openai
