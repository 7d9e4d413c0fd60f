// The models of text are listed and shown in Ollama's form. Families and sizes are not known here and are left empty.
#include "base/fnv.h"
#include "base/utc_time.h"
#include "dialects/openai/ollama/ollama.h"
#include "dialects/openai/ollama/request.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/reading.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "msg/text_codec.h"
#include "text/processor.h"

namespace weir::openai::ollama {
namespace {

using wire::Exchange;

constexpr std::string_view kDetails =
    R"("details":{"parent_model":"","format":"safetensors","family":"","families":[],"parameter_size":"","quantization_level":""})";

// One without a tag has it in lists.
void write_name(std::string& out, std::string_view name) {
  marshal::write_string(out, std::string(name) + (name.find(':') == name.npos ? ":latest" : ""));
}

// Clients show its beginning as the model's id: it differs where name or version do.
std::string digest(const msg::ModelSpec& spec) {
  std::string out;
  for (char word = '0'; word < '4'; ++word) {
    base::Fnv hash;
    hash.add_bytes(word + spec.name + '/' + spec.version);
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[hash.value() >> shift & 15];
  }
  return out;
}

void write_model(std::string& out, const OpenAiState& state, std::string_view name, const msg::ModelSpec& spec) {
  out += "{\"name\":";
  write_name(out, name);
  out += ",\"model\":";
  write_name(out, name);
  out += ",\"modified_at\":\"";
  base::append_utc(out, base::WallTime(std::chrono::seconds(state.created)));
  out += "\",\"size\":0,\"digest\":\"" + digest(spec) + "\",";
  out += kDetails;
}

// Calls `write` with each name of a model of text, or encoder, that the request may see, as an element of "models".
template <class Write>
std::string list(OpenAiState& state, Exchange& exchange, Write write) {
  std::string out = "{\"models\":[";
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  const auto add = [&](std::string_view name, const bus::Catalog::Model& model) {
    if (!model.preferred || !tokens_of(model.preferred->spec)) return;
    if (out.back() != '[') out += ',';
    write(out, name, model.preferred->spec);
  };
  for (const auto& [name, model] : catalog.models) add(name, model);
  for (const auto& [name, own] : catalog.names)
    if (auto model = catalog.models.find(own); model != catalog.models.end()) add(name, model->second);
  return out += "]}";
}

// Clients offer tools, thoughts and filling in where these say so.
void write_text_capabilities(std::string& out, const msg::TextSpec& text) {
  out += "\"completion\"";
  if (text.vision) out += ",\"vision\"";
  if (!text.codec) return;
  const msg::AnswerFormat format = text.codec->answer_format();
  if (format.tools != msg::ToolFormat::kNone) out += ",\"tools\"";
  if (format.thinks) out += ",\"thinking\"";
  if (fills_in(*text.codec)) out += ",\"insert\"";
}

// LiteLLM sends tools only to a model whose template has that word.
std::string shown_template(const msg::TextSpec& text) {
  const text::Processor* codec = text::processor_of(text.codec.get());
  std::string out = codec ? codec->chat_source : std::string();
  const bool calls = text.codec && text.codec->answer_format().tools != msg::ToolFormat::kNone;
  return calls && out.find("tools") == out.npos ? out + "{#- tools -#}" : out;
}

// `asked`: the name that the client has for it.
void write_info(std::string& out, std::string_view asked, const msg::ModelSpec& spec, const msg::TextSpec& text) {
  out += ",\"model_info\":{\"general.architecture\":\"weir\",\"general.name\":";
  marshal::write_string(out, spec.name);
  out += ",\"general.basename\":";
  marshal::write_string(out, asked);
  out += ",\"weir.context_length\":" + std::to_string(text.max_length);
  out += ",\"weir.embedding_length\":" + std::to_string(text.hidden_size);
  out += ",\"weir.vocab_size\":" + std::to_string(text.vocabulary) + "},\"capabilities\":[";
  if (!spec.text)
    out += text.labels > 0 ? "" : "\"embedding\"";
  else
    write_text_capabilities(out, text);
  out += ']';
}

void show_named(OpenAiState& state, Exchange& exchange, Named&& asked) {
  auto [served, error] = find_model(state, exchange, asked.model, bus::Needs::kAnything);
  if (!error.ok()) return respond(exchange, error);
  const msg::TextSpec* text = tokens_of(served->spec);
  if (!text) return respond(exchange, refuse("model", "model '" + asked.model + "' knows no text"));
  std::string out = R"({"license":"","modelfile":"","parameters":"","template":)";
  marshal::write_string(out, shown_template(*text));
  out += ',';
  out += kDetails;
  write_info(out, asked.model, served->spec, *text);
  out += ",\"modified_at\":\"";
  base::append_utc(out, base::WallTime(std::chrono::seconds(state.created)));
  respond_json(exchange, out += "\"}");
}

// A model that is served is there already.
void pull_named(OpenAiState& state, Exchange& exchange, Named&& asked) {
  auto [served, error] = find_model(state, exchange, asked.model, bus::Needs::kAnything);
  if (!error.ok()) return respond(exchange, error);
  wire::Response response;
  response.fields.add("content-type", asked.stream ? "application/x-ndjson" : "application/json");
  exchange.respond(std::move(response), base::Bytes::constant("{\"status\":\"success\"}\n"));
}

}  // namespace

void tags(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  respond_json(exchange, list(state, exchange, [&](std::string& out, std::string_view name, const auto& spec) {
                 write_model(out, state, name, spec);
                 out += '}';
               }));
}

void ps(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  respond_json(exchange, list(state, exchange, [&](std::string& out, std::string_view name, const auto& spec) {
                 write_model(out, state, name, spec);
                 out += ",\"expires_at\":\"9999-12-31T23:59:59Z\",\"size_vram\":0,\"context_length\":" +
                        std::to_string(tokens_of(spec)->max_length) + '}';
               }));
}

void show(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Named>(state, exchange, read_named, show_named);
}

void pull(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<Named>(state, exchange, read_named, pull_named);
}

void version(OpenAiState&, Exchange& exchange, const wire::PathArgs&) {
  respond_json(exchange, "{\"version\":\"" + std::string(kVersion) + "\"}");
}

void refuse_change(OpenAiState&, Exchange& exchange, const wire::PathArgs&) {
  respond(exchange, refuse(base::failure(base::Code::kUnimplemented,
                                         "models are made and removed in the repository's folder, not over HTTP")));
}

}  // namespace weir::openai::ollama
