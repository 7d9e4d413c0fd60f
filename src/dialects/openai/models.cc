// GET /v1/models[/{id}]: the models of text and the encoders, as OpenAI's clients want them, with what vLLM adds
// (max_model_len) and what a model can tell of itself here (readouts, images). KServe's V1 protocol has the same two
// paths: the list names all models in `models` as well, and one model has `name` and `ready`, also where it knows no
// text.
#include "dialects/openai/endpoints.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::openai {
namespace {

// Without the end of the object.
void begin_model(std::string& out, const OpenAiState& state, const msg::ModelSpec& spec) {
  out += "{\"id\":";
  marshal::write_string(out, spec.name);
  out += ",\"object\":\"model\",\"created\":" + std::to_string(state.created) + ",\"owned_by\":\"weir\",\"root\":";
  marshal::write_string(out, spec.name);
  out += ",\"parent\":null";
}

void write_text(std::string& out, const msg::TextSpec& text) {
  out += ",\"max_model_len\":" + std::to_string(text.max_length);
  if (text.labels > 0)
    out += ",\"labels\":" + std::to_string(text.labels);
  else
    out += ",\"embedding_size\":" + std::to_string(text.hidden_size);
  out += text.vision ? ",\"images\":true" : ",\"images\":false";
  if (text.concepts.empty()) return;
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

}  // namespace

void list_models(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs&) {
  std::string out = "{\"object\":\"list\",\"data\":[", names;
  for (const auto& [name, model] : state.bus.catalog(marshal::models_of(exchange.request())).models) {
    if (!names.empty()) names += ',';
    marshal::write_string(names, name);
    const msg::TextSpec* text = model.preferred ? tokens_of(model.preferred->spec) : nullptr;
    if (!text) continue;
    if (out.back() != '[') out += ',';
    begin_model(out, state, model.preferred->spec);
    write_text(out, *text);
    out += '}';
  }
  respond_json(exchange, out + "],\"models\":[" + names + "]}");
}

void show_model(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args) {
  auto [served, error] = find_model(state, exchange, args["model"], bus::Needs::kAnything);
  if (!error.ok()) return respond(exchange, error);
  std::string out;
  begin_model(out, state, served->spec);
  if (auto* text = tokens_of(served->spec)) write_text(out, *text);
  out += ",\"name\":";
  marshal::write_string(out, served->spec.name);
  respond_json(exchange, out + ",\"ready\":true}");
}

}  // namespace weir::openai
