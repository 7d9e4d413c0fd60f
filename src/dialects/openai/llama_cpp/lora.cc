// LoRA adapters as llama.cpp's clients know them: by number, with a scale. Here each is a model of its own: a request
// is for one of them as it is (scale 1), or for none. The numbers are those of the adapters' names in order, as far as
// the caller may use them; they change where adapters are loaded or unloaded.
#include <algorithm>
#include <vector>

#include "dialects/openai/llama_cpp/llama_cpp.h"
#include "dialects/openai/reading.h"
#include "marshal/field_reader.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "marshal/tenant.h"

namespace weir::openai::llama_cpp {
namespace {

using wire::Exchange;

struct LoraAdapters {
  std::string base;
  std::vector<const bus::Served*> list;  // for this turn of the loop
  const bus::Served* named = nullptr;    // the model that was asked for
};

// Finds the adapters of the model of that name, or of the model whose adapter it is.
ApiError find_adapters(OpenAiState& state, Exchange& exchange, std::string_view name, LoraAdapters& out) {
  auto [served, error] = find_model(state, exchange, name, bus::Needs::kTokens);
  if (!error.ok()) return error;
  out.named = served;
  out.base = served->spec.parent.empty() ? served->spec.name : served->spec.parent;
  for (const auto& [own, model] : state.bus.catalog(marshal::models_of(exchange.request())).models)
    if (model.preferred && model.preferred->spec.parent == out.base) out.list.push_back(model.preferred);
  return {};
}

bool read_scale(marshal::FieldReader& fields, std::vector<LoraScale>& out) {
  if (out.size() == kMaxLoraScales)
    return fields.refuse("lora", "at most " + std::to_string(kMaxLoraScales) + " adapters");
  marshal::JsonCursor& json = fields.json();
  if (json.peek() != marshal::JsonCursor::Kind::kObject) return fields.unexpected("lora", "a list of {id, scale}");
  std::optional<uint32_t> id;
  std::optional<float> scale;
  const bool good = json.object([&](std::string_view key) {
    if (key == "id") return fields.whole("id", 0, UINT32_MAX, id);
    return key == "scale" ? fields.real("scale", -kMostScale, kMostScale, scale) : json.skip();
  });
  if (good && !id) return fields.refuse("lora", "an adapter without an id");
  if (good) out.push_back({*id, scale.value_or(0)});
  return good;
}

// The one whose scale is not 0; null where all are.
ApiError chosen_adapter(const LoraAdapters& adapters, const std::vector<LoraScale>& scales, const bus::Served*& out) {
  for (const auto& [id, scale] : scales) {
    if (id >= adapters.list.size()) return refuse("lora", "lora: no adapter has the id " + std::to_string(id));
    if (scale == 0) continue;
    if (scale != 1) return refuse("lora", "lora: a scale is 0 or 1 here");
    if (out && out != adapters.list[id]) return refuse("lora", "lora: a request is for one adapter");
    out = adapters.list[id];
  }
  return {};
}

}  // namespace

bool read_scales(marshal::FieldReader& fields, std::vector<LoraScale>& out) {
  return fields.json().array([&] { return read_scale(fields, out); });
}

ApiError choose_adapter(OpenAiState& state, Exchange& exchange, Request& request) {
  if (request.native.lora.empty()) return {};
  LoraAdapters adapters;
  if (ApiError bad = find_adapters(state, exchange, request.model, adapters); !bad.ok()) return bad;
  const bus::Served* chosen = nullptr;
  if (ApiError bad = chosen_adapter(adapters, request.native.lora, chosen); !bad.ok()) return bad;
  if (chosen)
    request.model = chosen->spec.name;
  else if (!adapters.named->spec.parent.empty())
    request.model = adapters.base;
  return {};
}

void lora_adapters(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  LoraAdapters adapters;
  if (ApiError bad = find_adapters(state, exchange, exchange.request().query_value("model"), adapters); !bad.ok())
    return respond(exchange, bad);
  std::string out = "[";
  for (size_t i = 0; i < adapters.list.size(); ++i) {
    const msg::ModelSpec& spec = adapters.list[i]->spec;
    out += (i > 0 ? ",{\"id\":" : "{\"id\":") + std::to_string(i) + ",\"path\":";
    marshal::write_string(out, spec.root);
    out += ",\"model\":";
    marshal::write_string(out, spec.name);
    out += adapters.list[i] == adapters.named ? ",\"scale\":1.0}" : ",\"scale\":0.0}";
  }
  respond_json(exchange, out += ']');
}

// The scales of requests that have none: they cannot be other than they are, for all clients share the models.
void set_lora_adapters(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  using Scales = std::vector<LoraScale>;
  read_body<Scales>(
      state, exchange,
      [](std::string_view body, Scales& out) {
        marshal::JsonCursor json(body);
        marshal::FieldReader fields(json);
        const bool good = read_scales(fields, out) && json.finish();
        return good ? ApiError{} : ApiError{fields.error(), fields.param(), {}};
      },
      [](OpenAiState& there, Exchange& x, Scales&& scales) {
        LoraAdapters adapters;
        ApiError bad = find_adapters(there, x, x.request().query_value("model"), adapters);
        const bus::Served* chosen = nullptr;
        if (bad.ok()) bad = chosen_adapter(adapters, scales, chosen);
        const bool own = chosen == adapters.named || (!chosen && adapters.named && adapters.named->spec.parent.empty());
        if (bad.ok() && !own)
          bad = refuse(base::failure(base::Code::kUnimplemented,
                                     "This server does not support scales for all requests: a request names its "
                                     "adapter by lora, or by model"));
        if (!bad.ok()) return respond(x, bad);
        respond_json(x, R"({"success":true})");
      });
}

}  // namespace weir::openai::llama_cpp
