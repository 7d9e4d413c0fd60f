#include "engines/llm/encoder/encoder_files.h"

#include "engines/llm/load/fields.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr size_t kMaxFile = 1 << 20, kMaxModules = 16;

base::Status refuse(std::string text) { return base::failure(base::Code::kUnimplemented, std::move(text)); }

base::Status read_pooling(const Folder& folder, const std::string& place, EncoderFiles& out) {
  struct Way {
    const char* name;
    std::optional<Pooling> pooling;
  };
  constexpr Way kWays[] = {{"pooling_mode_mean_tokens", Pooling::kMean}, {"pooling_mode_cls_token", Pooling::kFirst},
                           {"pooling_mode_lasttoken", Pooling::kLast},   {"pooling_mode_max_tokens", {}},
                           {"pooling_mode_mean_sqrt_len_tokens", {}},    {"pooling_mode_weightedmean_tokens", {}}};
  auto inside = folder.inside(place);
  if (!inside) return inside.error();
  auto text = inside->read("config.json", kMaxFile);
  if (!text) return base::failure(text.error().code, place + ": " + text.error().text);
  auto config = text::parse_model_json(*text, place + "/config.json");
  if (!config) return config.error();
  if (!config->is_object()) return base::invalid(place + "/config.json is not a JSON object");
  base::Status status;
  ConfigFields f(*config, status, place + "/config.json: ");
  for (const Way& way : kWays) {
    if (!f.flag_or(way.name, false)) continue;
    if (!way.pooling) f.fail(way.name, "is not supported", base::Code::kUnimplemented);
    if (out.pooling) f.fail(way.name, "is a second way of pooling, which is not supported", base::Code::kUnimplemented);
    out.pooling = way.pooling;
  }
  if (status.ok() && !out.pooling) return refuse(place + "/config.json: no way of pooling that is known here");
  return status;
}

base::Status read_module(const Folder& folder, const json& module, EncoderFiles& out) {
  std::string type = module.is_object() ? module.value("type", "") : "",
              path = module.is_object() ? module.value("path", "") : "";
  std::string kind = type.substr(type.rfind('.') + 1);  // "sentence_transformers.models.Pooling"
  if (kind == "Transformer" && path.empty()) return {};
  if (kind == "Pooling" && !out.pooling) return read_pooling(folder, path, out);
  if (kind == "Normalize" && out.pooling) return out.scale = Scale::kLengthOne, base::Status{};
  return refuse("modules.json: the step '" + type.substr(0, 100) + "' is not supported here");
}

base::Status read_modules(const Folder& folder, const std::string& text, EncoderFiles& out) {
  auto parsed = text::parse_model_json(text, "modules.json");
  if (!parsed) return parsed.error();
  const json& modules = *parsed;
  if (!modules.is_array() || modules.size() > kMaxModules) return base::invalid("modules.json is not a list of steps");
  for (const json& module : modules) {
    bool strings = module.is_object();
    for (const char* key : {"type", "path"}) strings = strings && (!module.contains(key) || module[key].is_string());
    if (!strings) return base::invalid("modules.json: a step is no object with type and path");
    if (auto s = read_module(folder, module, out); !s.ok()) return s;
  }
  return {};
}

}  // namespace

base::Result<EncoderFiles> read_encoder_files(const Folder& folder) {
  EncoderFiles out;
  auto modules = folder.read_if_there("modules.json", kMaxFile);
  if (!modules) return modules.error();
  out.there = !modules->empty();
  if (out.there)
    if (auto s = read_modules(folder, *modules, out); !s.ok()) return s;
  auto text = folder.read_if_there("sentence_bert_config.json", kMaxFile);
  if (!text) return text.error();
  if (text->empty()) return out;
  auto config = text::parse_model_json(*text, "sentence_bert_config.json");
  if (!config) return config.error();
  base::Status status;
  ConfigFields f(*config, status, "sentence_bert_config.json: ");
  if (f.has("max_seq_length")) out.max_length = f.count("max_seq_length", 1, 1 << 24);
  if (!status.ok()) return status;
  return out;
}

}  // namespace weir::llm
