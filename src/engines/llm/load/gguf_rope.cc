#include <cmath>

#include "engines/llm/load/gguf_families.h"

namespace weir::llm {
namespace {

using nlohmann::json;

void write_yarn(GgufFields& f, json& scaling, double factor) {
  if (auto length = f.whole(f.key("rope.scaling.original_context_length")))
    scaling["original_max_position_embeddings"] = *length;
  for (auto [ours, theirs] :
       {std::pair{"beta_fast", "rope.scaling.yarn_beta_fast"}, std::pair{"beta_slow", "rope.scaling.yarn_beta_slow"}})
    if (auto number = f.real(f.key(theirs))) scaling[ours] = *number;
  if (auto part = f.real(f.key("rope.scaling.yarn_ext_factor")); part && *part >= 0 && *part != 1)
    f.unsupported(f.key("rope.scaling.yarn_ext_factor"), "is not 1");
  const std::string usual = f.key("rope.scaling.attn_factor"), yarn = f.key("rope.scaling.yarn_attn_factor");
  const std::string& name = f.has(usual) ? usual : yarn;
  const auto magnitude = f.real(name);
  if (!magnitude || factor <= 1) return;
  const double whole = *magnitude * (1 + 0.1 * std::log(factor));
  if (!std::isfinite(whole)) return f.invalid(name, "is out of range");
  scaling["attention_factor"] = whole;
}

// The factors of short and of long texts, as Phi-3 has them.
void write_longrope(GgufFields& f, json& out) {
  const auto longer = f.list("rope_factors_long.weight"), shorter = f.list("rope_factors_short.weight");
  if (shorter.empty()) f.fail(base::invalid("GGUF: no tensor 'rope_factors_short.weight'"));
  if (const auto* type = f.text(f.key("rope.scaling.type")); type && *type != "longrope" && *type != "none")
    f.unsupported(f.key("rope.scaling.type"), "is not longrope, which 'rope_factors_long.weight' is for");
  json scaling = {{"rope_type", "longrope"}, {"long_factor", longer}, {"short_factor", shorter}};
  const auto original = f.whole(f.key("rope.scaling.original_context_length"));
  scaling["original_max_position_embeddings"] = original ? json(*original) : out["max_position_embeddings"];
  scaling["attention_factor"] = f.real(f.key("rope.scaling.attn_factor")).value_or(1);
  out["rope_scaling"] = std::move(scaling);
}

// Ollama's files of Gemma 3 that also see do not say how far their positions are stretched.
bool is_unsaid(GgufFields& f, const json& out) {
  return f.architecture == "gemma3" && !f.has(f.key("attention.layer_norm_rms_epsilon")) &&
         out["max_position_embeddings"].get<int64_t>() >= 131072;
}

void write_scaling(GgufFields& f, json& out) {
  const auto* type = f.text(f.key("rope.scaling.type"));
  auto factor = f.real(f.key("rope.scaling.factor"));
  if (!factor && !type) factor = f.real(f.key("rope.scale_linear"));
  if (!factor && !type && is_unsaid(f, out)) factor = 8;
  json scaling;
  if (type && *type != "none")
    scaling["rope_type"] = *type;
  else if (!type && factor && *factor != 1)
    scaling["rope_type"] = "linear";
  if (f.tensor("rope_freqs.weight")) {
    if (!scaling.is_null()) return f.unsupported("rope_freqs.weight", "is not supported beside another scaling");
    // Llama 3.1's files have the scaling as what each frequency is divided by.
    out["rope_scaling"] = {{"rope_type", "factors"}, {"factors", f.list("rope_freqs.weight")}};
    return;
  }
  if (scaling.is_null()) return;
  if (factor) scaling["factor"] = *factor;
  if (scaling["rope_type"] == "yarn") write_yarn(f, scaling, factor.value_or(1));
  out["rope_scaling"] = std::move(scaling);
}

}  // namespace

void write_rope(GgufFields& f, json& out) {
  const bool gemma3 = f.architecture == "gemma3";
  auto base = f.real(f.key("rope.freq_base"));
  if (!base && gemma3) base = f.real(f.key("rope.global.freq_base"));  // Ollama's
  out["rope_theta"] = base.value_or(gemma3 ? 1e6 : 1e4);
  if (f.tensor("rope_factors_long.weight")) return write_longrope(f, out);
  write_scaling(f, out);
}

}  // namespace weir::llm
