// The models of text are listed and shown in Ollama's form, with what their files say of them (msg::ModelDetails); of
// models that run elsewhere that is nothing.
#include <cmath>
#include <cstdio>

#include "base/fnv.h"
#include "base/utc_time.h"
#include "bus/memory_use.h"
#include "dialects/openai/ollama/ollama.h"
#include "dialects/openai/ollama/request.h"
#include "dialects/openai/prompt.h"
#include "dialects/openai/reading.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"
#include "msg/model_details.h"
#include "msg/text_codec.h"
#include "text/processor.h"

namespace weir::openai::ollama {
namespace {

using wire::Exchange;

// As Ollama writes it: "8B", "7.6B", "494.03M".
std::string show_count(uint64_t n) {
  const auto in = [n](double unit, int digits, char name) {
    const double number = double(n) / unit;
    char out[32];
    std::snprintf(out, sizeof out, "%.*f%c", number == std::floor(number) ? 0 : digits, number, name);
    return std::string(out);
  };
  if (n >= 1'000'000'000) return in(1e9, 1, 'B');
  if (n >= 1'000'000) return in(1e6, 2, 'M');
  return n >= 1'000 ? in(1e3, 0, 'K') : n > 0 ? std::to_string(n) : "";
}

const msg::ModelDetails& details_of(const msg::ModelSpec& spec) {
  static const msg::ModelDetails kNone;
  return spec.details ? *spec.details : kNone;
}

void write_details(std::string& out, const msg::ModelSpec& spec) {
  const msg::ModelDetails& known = details_of(spec);
  out += "\"details\":{\"parent_model\":";
  marshal::write_string(out, spec.parent);
  out += ",\"format\":";
  marshal::write_string(out, known.format);
  out += ",\"family\":";
  marshal::write_string(out, known.family);
  out += ",\"families\":[";
  if (!known.family.empty()) marshal::write_string(out, known.family);
  out += "],\"parameter_size\":\"" + show_count(known.parameters) + "\",\"quantization_level\":";
  marshal::write_string(out, known.quantization);
  out += '}';
}

void write_modified(std::string& out, const OpenAiState& state, const msg::ModelSpec& spec) {
  const int64_t ms = details_of(spec).modified_ms;
  out += "\"modified_at\":\"";
  base::append_utc(out, ms > 0 ? base::WallTime(std::chrono::milliseconds(ms))
                               : base::WallTime(std::chrono::seconds(state.created)));
  out += '"';
}

// One without a tag has it in lists.
void write_name(std::string& out, std::string_view name) {
  marshal::write_string(out, std::string(name) + (name.find(':') == name.npos ? ":latest" : ""));
}

// Clients show its beginning as the model's id: it differs where name, version or files do.
std::string digest(const msg::ModelSpec& spec) {
  std::string out;
  if (spec.parent.empty() && !details_of(spec).digest.empty()) return details_of(spec).digest;
  for (char word = '0'; word < '4'; ++word) {
    base::Fnv hash;
    hash.add_bytes(word + spec.name + '/' + spec.version + details_of(spec).digest);
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[hash.value() >> shift & 15];
  }
  return out;
}

// `size`: of its files, or what it takes of memory.
void write_model(std::string& out, const OpenAiState& state, std::string_view name, const msg::ModelSpec& spec,
                 uint64_t size) {
  out += "{\"name\":";
  write_name(out, name);
  out += ",\"model\":";
  write_name(out, name);
  out += ',';
  write_modified(out, state, spec);
  out += ",\"size\":" + std::to_string(size) + ",\"digest\":\"" + digest(spec) + "\",";
  write_details(out, spec);
}

// Calls `write` with each name of a model of text, or encoder, that the request may see, as an element of "models".
template <class Write>
std::string list(OpenAiState& state, Exchange& exchange, Write write) {
  std::string out = "{\"models\":[";
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  const auto add = [&](std::string_view name, const bus::Catalog::Model& model) {
    if (!model.preferred || !tokens_of(model.preferred->spec)) return;
    if (out.back() != '[') out += ',';
    write(out, name, *model.preferred);
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

void write_fact(std::string& out, const msg::ModelDetails::Fact& fact) {
  if (auto* text = std::get_if<std::string>(&fact)) return marshal::write_string(out, *text);
  if (auto* whole = std::get_if<int64_t>(&fact)) return marshal::write_number(out, *whole);
  if (auto* flag = std::get_if<bool>(&fact)) return void(out += *flag ? "true" : "false");
  auto* real = std::get_if<double>(&fact);
  if (real && std::isfinite(*real)) return marshal::write_number(out, *real);
  out += real ? "null" : "[]";
}

// The context that is served counts, whatever the file says: it may be shorter, and is all that a client may send.
// `asked`: the name that the client has for it.
void write_info(std::string& out, std::string_view asked, const msg::ModelSpec& spec, const msg::TextSpec& text) {
  using Fact = msg::ModelDetails::Fact;
  std::map<std::string, Fact> facts = details_of(spec).facts;
  const std::string family = details_of(spec).family.empty() ? "weir" : details_of(spec).family;
  facts["general.architecture"] = family;
  facts.emplace("general.basename", std::string(asked));
  for (auto [name, number] : {std::pair{".context_length", text.max_length},
                              {".embedding_length", text.hidden_size},
                              {".vocab_size", text.vocabulary}})
    facts[family + name] = int64_t(number);
  out += ",\"model_info\":{";
  for (const auto& [name, fact] : facts) {
    if (out.back() != '{') out += ',';
    marshal::write_string(out, name);
    out += ':';
    write_fact(out, fact);
  }
  out += "},\"capabilities\":[";
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
  write_details(out, served->spec);
  write_info(out, asked.model, served->spec, *text);
  out += ',';
  write_modified(out, state, served->spec);
  respond_json(exchange, out += '}');
}

// A model that is served is there already.
void pull_named(OpenAiState& state, Exchange& exchange, Named&& asked) {
  auto [served, error] = find_model(state, exchange, asked.model, bus::Needs::kAnything);
  if (error.status.code == base::Code::kNotFound)
    error.status.text += "; models are not pulled: they are put into the repository's folder";
  if (!error.ok()) return respond(exchange, error);
  wire::Response response;
  response.fields.add("content-type", asked.stream ? "application/x-ndjson" : "application/json");
  exchange.respond(std::move(response), base::Bytes::constant("{\"status\":\"success\"}\n"));
}

}  // namespace

void tags(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  respond_json(exchange, list(state, exchange, [&](std::string& out, std::string_view name, const auto& served) {
                 write_model(out, state, name, served.spec, details_of(served.spec).bytes);
                 out += '}';
               }));
}

void ps(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  respond_json(exchange, list(state, exchange, [&](std::string& out, std::string_view name, const auto& served) {
                 uint64_t all = 0, on_devices = 0;
                 for (const auto& use : bus::memory_of(served)) {
                   all += use.bytes;
                   if (use.place != "cpu") on_devices += use.bytes;
                 }
                 write_model(out, state, name, served.spec, all);
                 out += ",\"expires_at\":\"9999-12-31T23:59:59Z\",\"size_vram\":" + std::to_string(on_devices) +
                        ",\"context_length\":" + std::to_string(tokens_of(served.spec)->max_length) + '}';
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
