// GET /v1/models[/{id}]: the models of text and the encoders, as OpenAI's clients want them, with what vLLM adds
// (max_model_len; of an adapter its folder as `root`, and its model as `parent`) and what a model can tell of itself
// here (readouts, images). KServe's V1 protocol has the same two paths: the list names all models in `models` as well,
// and one model has `name` and `ready`, also where it knows no text.
#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/endpoints.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "marshal/version_status.h"

namespace weir::openai {
namespace {

// `id`: its own name, or a further one. Without the end of the object.
void begin_model(std::string& out, const OpenAiState& state, std::string_view id, const msg::ModelSpec& spec) {
  out += "{\"id\":";
  marshal::write_string(out, id);
  out += ",\"object\":\"model\",\"created\":" + std::to_string(state.created) + ",\"owned_by\":\"weir\",\"root\":";
  if (spec.parent.empty()) {
    marshal::write_string(out, spec.name);
    out += ",\"parent\":null";
    return;
  }
  marshal::write_string(out, spec.root);
  out += ",\"parent\":";
  marshal::write_string(out, spec.parent);
}

bool is_adapter(const bus::Catalog::Model& model) { return model.preferred && !model.preferred->spec.parent.empty(); }

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
  if (anthropic::asks(exchange)) return anthropic::list_models(state, exchange);
  std::string out = "{\"object\":\"list\",\"data\":[", names;
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  const auto list = [&](std::string_view name, const bus::Catalog::Model& model) {
    if (!names.empty()) names += ',';
    marshal::write_string(names, name);
    const msg::TextSpec* text = model.preferred ? tokens_of(model.preferred->spec) : nullptr;
    if (!text) return;
    if (out.back() != '[') out += ',';
    begin_model(out, state, name, model.preferred->spec);
    write_text(out, *text);
    out += '}';
  };
  for (const auto& [name, model] : catalog.models)
    if (!is_adapter(model)) list(name, model);
  for (const auto& [name, own] : catalog.names)
    if (auto model = catalog.models.find(own); model != catalog.models.end()) list(name, model->second);
  // Clients of vLLM take the first one.
  for (const auto& [name, model] : catalog.models)
    if (is_adapter(model)) list(name, model);
  respond_json(exchange, out + "],\"models\":[" + names + "]}");
}

void show_model(OpenAiState& state, wire::Exchange& exchange, const wire::PathArgs& args) {
  const std::string name = name_in_path(args, "model");
  if (anthropic::asks(exchange)) return anthropic::show_model(state, exchange, name);
  auto [served, error] = find_model(state, exchange, name, bus::Needs::kAnything);
  if (!error.ok()) return respond(exchange, error);
  std::string out;
  begin_model(out, state, name_in_answer(name, served->spec.name), served->spec);
  if (auto* text = tokens_of(served->spec)) write_text(out, *text);
  out += ",\"name\":";
  marshal::write_string(out, served->spec.name);
  out += ",\"ready\":true";
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  if (auto model = catalog.models.find(served->spec.name); model != catalog.models.end())
    marshal::write_version_status(out, model->second.versions);
  respond_json(exchange, out + "}");
}

}  // namespace weir::openai
