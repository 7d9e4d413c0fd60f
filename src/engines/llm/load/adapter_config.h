// adapter_config.json of a LoRA adapter, as PEFT writes it: the rank and scale of each module that it changes.
//
//   r, lora_alpha          y = W x + scale * B (A x), of rank r; scale = lora_alpha / r, or / sqrt(r) with use_rslora
//   rank_pattern, alpha_pattern
//                          others for modules whose name is the key, or ends with '.' and the key
//   target_modules         names, or ends of names, of the modules that are changed; one text is a regular expression
//   layers_to_transform    their layers; all where it is not said
//
// https://huggingface.co/docs/peft/package_reference/lora
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::llm {

inline constexpr uint32_t kMostAdapterRank = 1024;

struct AdapterConfig {
  uint32_t rank = 0;
  double alpha = 0;
  bool by_root = false;              // use_rslora
  std::vector<std::string> targets;  // empty: a pattern, and only the weights say what is changed
  std::set<uint32_t> layers;         // empty: all
  std::map<std::string, uint32_t, std::less<>> ranks;
  std::map<std::string, double, std::less<>> alphas;

  // Those of a module like "model.layers.3.self_attn.q_proj".
  uint32_t rank_of(std::string_view module) const;
  float scale_of(std::string_view module) const;
  // Whether the module must have weights.
  bool names(std::string_view module, uint32_t layer) const;
};

// `place` names the file in errors; `known` are the last parts of the names that target_modules may have. Errors:
// INVALID_ARGUMENT (a field that is missing or out of range), UNIMPLEMENTED (another method than LoRA, or what would
// change answers and is not done here).
base::Result<AdapterConfig> parse_adapter_config(std::string_view json, const std::string& place,
                                                 const std::vector<std::string>& known);

}  // namespace weir::llm
