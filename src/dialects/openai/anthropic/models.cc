// GET /v1/models[/{id}] as Anthropic's clients want them. OpenAI's have the same two paths: a request that says
// anthropic-version is one of Anthropic's.
//
//   {"data":[{"type":"model","id","display_name","created_at","max_input_tokens",…}],"has_more","first_id","last_id"}
// A page is the `limit` models behind `after_id`, or those before `before_id`.
#include <algorithm>
#include <string>
#include <vector>

#include "base/utc_time.h"
#include "dialects/openai/anthropic/anthropic.h"
#include "dialects/openai/batches/batches.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::openai::anthropic {
namespace {

using wire::Exchange;

struct Listed {
  std::string_view id;
  const msg::ModelSpec* spec;
};

void write_model(std::string& out, const OpenAiState& state, std::string_view id, const msg::ModelSpec& spec) {
  const std::string most = std::to_string(spec.text->max_length);
  out += R"({"type":"model","id":)";
  marshal::write_string(out, id);
  out += ",\"display_name\":";
  marshal::write_string(out, spec.name);
  out += ",\"created_at\":\"";
  base::append_utc(out, base::WallTime(std::chrono::seconds(state.created)));
  out += R"(","lifecycle":"active","deprecated_at":null,"retires_at":null,"line":null,"capabilities":null)";
  out += ",\"max_input_tokens\":" + most + ",\"max_tokens\":" + most + '}';
}

// Those that answer messages, by each of their names.
std::vector<Listed> models_of_text(OpenAiState& state, const Exchange& exchange) {
  std::vector<Listed> out;
  const bus::Catalog& catalog = state.bus.catalog(marshal::models_of(exchange.request()));
  const auto add = [&](std::string_view name, const bus::Catalog::Model& model) {
    if (model.preferred && model.preferred->spec.text) out.push_back({name, &model.preferred->spec});
  };
  for (const auto& [name, model] : catalog.models) add(name, model);
  for (const auto& [name, own] : catalog.names)
    if (auto model = catalog.models.find(own); model != catalog.models.end()) add(name, model->second);
  return out;
}

void write_id(std::string& out, std::string_view name, std::string_view id) {
  ((out += ",\"") += name) += "\":";
  if (id.empty())
    out += "null";
  else
    marshal::write_string(out, id);
}

}  // namespace

bool asks(const Exchange& exchange) { return exchange.request().fields.has("anthropic-version"); }

void end_page(std::string& out, bool more, std::string_view first_id, std::string_view last_id) {
  out += more ? "],\"has_more\":true" : "],\"has_more\":false";
  write_id(out, "first_id", first_id);
  write_id(out, "last_id", last_id);
  out += '}';
}

void list_models(OpenAiState& state, Exchange& exchange) {
  constexpr size_t kMost = 1000, kUsual = 20;
  const auto limit = batches::list_limit(exchange, kMost, kUsual);
  if (!limit) return;
  const std::vector<Listed> all = models_of_text(state, exchange);
  auto begin = all.begin(), end = all.end();
  for (const char* name : {"after_id", "before_id"}) {
    const std::string id = exchange.request().query_value(name);
    if (id.empty()) continue;
    const auto at = std::find_if(begin, end, [&](const Listed& one) { return one.id == id; });
    if (at == end) return respond(exchange, openai::refuse(name, std::string(name) + ": there is no such model"));
    *name == 'a' ? begin = at + 1 : end = at;
  }
  const bool backward = !exchange.request().query_value("before_id").empty();
  const bool more = size_t(end - begin) > *limit;
  if (more) backward ? begin = end - ptrdiff_t(*limit) : end = begin + ptrdiff_t(*limit);
  std::string out = "{\"data\":[";
  for (auto one = begin; one != end; ++one) {
    if (one != begin) out += ',';
    write_model(out, state, one->id, *one->spec);
  }
  end_page(out, more, begin == end ? std::string_view() : begin->id, begin == end ? std::string_view() : (end - 1)->id);
  respond_json(exchange, std::move(out));
}

void show_model(OpenAiState& state, Exchange& exchange, std::string_view name) {
  auto [served, error] = find_model(state, exchange, name, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  std::string out;
  write_model(out, state, name_in_answer(name, served->spec.name), served->spec);
  respond_json(exchange, std::move(out));
}

}  // namespace weir::openai::anthropic
