#include "engines/llm/load/adapter_config.h"

#include <algorithm>
#include <cmath>

#include "engines/llm/load/fields.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

constexpr double kMostAlpha = 1e6;
constexpr uint32_t kMostTransformed = 1024;
constexpr size_t kMostPatterns = 8192, kMostTargets = 1024;
constexpr size_t kLongestModule = 256;  // bytes of a module's name

bool ends_module(std::string_view module, std::string_view key) {
  if (!module.ends_with(key)) return false;
  return module.size() == key.size() || module[module.size() - key.size() - 1] == '.';
}

template <class T>
using Patterns = std::map<std::string, T, std::less<>>;

// All keys that fit have one value (read_patterns).
template <class T>
T of_pattern(const Patterns<T>& patterns, std::string_view module, T otherwise) {
  for (;;) {
    if (auto found = patterns.find(module); found != patterns.end()) return found->second;
    const size_t dot = module.find('.');
    if (dot == module.npos) return otherwise;
    module.remove_prefix(dot + 1);
  }
}

bool asks_for(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_array() || value.is_object() || value.is_string()) return !value.empty();
  return !value.is_null();
}

void refuse_other_methods(ConfigFields& f) {
  constexpr std::pair<const char*, const char*> kRefused[] = {
      {"use_dora", "asks for DoRA, and only LoRA is served"},
      {"use_qalora", "asks for QALoRA, and only LoRA is served"},
      {"modules_to_save", "names modules with weights of their own, which adapters have not here"},
      {"lora_bias", "asks for biases, which adapters have not here"},
      {"fan_in_fan_out", "is for weights of [inputs][outputs], which no model here has"},
      {"layer_replication", "asks for other layers than the model's"},
      {"trainable_token_indices", "changes embeddings, which adapters do not here"},
      {"target_parameters", "changes experts, which adapters do not here"},
      {"alora_invocation_tokens", "is for adapters that begin within a text"}};
  const auto unserved = base::Code::kUnimplemented;
  const std::string type = f.text_or("peft_type", "");
  if (type != "LORA") f.fail("peft_type", type.empty() ? "is missing: LORA" : "is not LORA", unserved);
  for (const auto& [name, why] : kRefused)
    if (f.has(name) && asks_for(f[name])) f.fail(name, why, unserved);
  if (f.text_or("bias", "none") != "none") f.fail("bias", "is not none: biases are not changed here", unserved);
  if (!f.has("init_lora_weights") || !f["init_lora_weights"].is_string()) return;
  const auto& how = f["init_lora_weights"].get_ref<const std::string&>();
  for (const char* moved : {"pissa", "olora", "corda"})
    if (how.starts_with(moved))
      f.fail("init_lora_weights",
             "is " + std::string(moved) +
                 ", which changes the base model, too; convert the adapter to plain LoRA as "
                 "PEFT's guide says",
             unserved);
}

// Keys are names, or ends of names; PEFT also takes regular expressions, and the first of several that fit.
template <class T, class Read>
Patterns<T> read_patterns(ConfigFields& f, const char* name, Read&& read) {
  Patterns<T> out;
  if (!f.has(name)) return out;
  if (!f[name].is_object() || f[name].size() > kMostPatterns) return f.fail(name, "is not an object of modules"), out;
  for (const auto& [key, value] : f[name].items()) {
    if (key.empty() || key.find_first_of("^$*+?()[]{}|\\") != key.npos) {
      f.fail(name, "has a regular expression as a key: names of modules, or ends of names, are taken",
             base::Code::kUnimplemented);
      return out;
    }
    if (key.size() > kLongestModule) return f.fail(name, "has a key that is longer than 256 bytes"), out;
    read(key, value, out[key]);
  }
  for (const auto& [key, value] : out)
    for (size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1))
      if (auto other = out.find(std::string_view(key).substr(dot + 1)); other != out.end() && other->second != value)
        f.fail(name, "has two values for one module");
  return out;
}

void read_all_patterns(ConfigFields& f, AdapterConfig& out) {
  out.ranks = read_patterns<uint32_t>(f, "rank_pattern", [&](const auto& key, const auto& value, uint32_t& to) {
    if (value.is_number_unsigned() && value.template get<uint64_t>() - 1 < kMostAdapterRank)
      to = uint32_t(value.template get<uint64_t>());
    else
      f.fail("rank_pattern." + key.substr(0, 128),
             "is not a whole number from 1 to " + std::to_string(kMostAdapterRank));
  });
  out.alphas = read_patterns<double>(f, "alpha_pattern", [&](const auto& key, const auto& value, double& to) {
    if (value.is_number() && std::abs(value.template get<double>()) <= kMostAlpha)
      to = value.template get<double>();
    else
      f.fail("alpha_pattern." + key.substr(0, 128), "is out of range");
  });
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : &name == &names.back() ? " and " : ", ") + name;
  return out;
}

void read_targets(ConfigFields& f, const std::vector<std::string>& known, AdapterConfig& out) {
  if (!f.has("target_modules")) return f.fail("target_modules", "is missing");
  const auto& targets = f["target_modules"];
  if (targets.is_string()) return;
  if (!targets.is_array() || targets.empty() || targets.size() > kMostTargets)
    return f.fail("target_modules", "is not a list of names of modules");
  for (const auto& target : targets) {
    if (!target.is_string()) return f.fail("target_modules", "is not a list of names of modules");
    auto name = target.get<std::string>();
    const auto last = name.substr(name.rfind('.') + 1);
    if (std::find(known.begin(), known.end(), last) == known.end())
      return f.fail("target_modules",
                    "names '" + name.substr(0, 128) + "': of this model adapters can change " + listed(known),
                    base::Code::kUnimplemented);
    out.targets.push_back(std::move(name));
  }
  // Which of them have no weights only PEFT's own matching tells.
  if (f.has("exclude_modules") && asks_for(f["exclude_modules"])) out.targets.clear();
}

void read_layers(ConfigFields& f, AdapterConfig& out) {
  constexpr const char* kName = "layers_to_transform";
  if (!f.has(kName)) return;
  const auto& given = f[kName];
  const auto add = [&](const nlohmann::json& layer) {
    if (layer.is_number_unsigned() && layer.get<uint64_t>() <= kMostTransformed)
      out.layers.insert(uint32_t(layer.get<uint64_t>()));
    else
      f.fail(kName, "is neither the number of a layer nor a list of such");
  };
  if (!given.is_array() || given.size() > kMostTransformed) return add(given);
  for (const auto& layer : given) add(layer);
}

}  // namespace

uint32_t AdapterConfig::rank_of(std::string_view module) const { return of_pattern(ranks, module, rank); }

float AdapterConfig::scale_of(std::string_view module) const {
  const double r = rank_of(module);
  return float(of_pattern(alphas, module, alpha) / (by_root ? std::sqrt(r) : r));
}

bool AdapterConfig::names(std::string_view module, uint32_t layer) const {
  if (!layers.empty() && !layers.contains(layer)) return false;
  return std::any_of(targets.begin(), targets.end(), [&](const auto& target) { return ends_module(module, target); });
}

base::Result<AdapterConfig> parse_adapter_config(std::string_view json, const std::string& place,
                                                 const std::vector<std::string>& known) {
  auto parsed = text::parse_model_json(json, place);
  if (!parsed) return parsed.error();
  if (!parsed->is_object()) return base::invalid(place + (parsed->is_discarded() ? " is not JSON" : " is no object"));
  base::Status status;
  ConfigFields f(*parsed, status, place + ": ");
  AdapterConfig out;
  refuse_other_methods(f);
  out.rank = f.count("r", 1, kMostAdapterRank);
  if (!f.has("lora_alpha")) f.fail("lora_alpha", "is missing");
  out.alpha = f.real_or("lora_alpha", -kMostAlpha, kMostAlpha, 0);
  out.by_root = f.flag_or("use_rslora", false);
  read_all_patterns(f, out);
  read_targets(f, known, out);
  read_layers(f, out);
  if (!status.ok()) return status;
  return out;
}

}  // namespace weir::llm
