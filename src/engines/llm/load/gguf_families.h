// The architectures of GGUF files that are known here, as llama.cpp calls them, and what each says in its own way.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engines/llm/load/gguf_fields.h"

namespace weir::llm {

// A tensor's name without the layer's number and ".weight", and what it is called in a Hugging Face folder.
struct Renamed {
  std::string_view theirs, ours;
};

struct GgufFamily {
  std::string_view name, ours;         // of general.architecture, and of config.json
  bool turned = false;                 // heads of queries and keys have the rows of their halves in turn
  std::span<const Renamed> renamed{};  // before the usual names
  // An encoder's, which has none of the usual names.
  std::span<const Renamed> outside{};
  std::string_view layers = "model.layers.";
};

// Null: it is not known here.
const GgufFamily* gguf_family(std::string_view name);
const GgufFamily* gguf_family(const Gguf& gguf);
inline bool is_gpt_oss(std::string_view architecture) { return architecture == "gpt-oss" || architecture == "gptoss"; }
// "llama, qwen2 and qwen3"
std::string known_gguf_families();

// Adds what config.json says of the family alone; `out` has the sizes that all have. Refuses fields that would change
// answers, and that the family does not have.
void write_family(GgufFields& f, nlohmann::json& out);

// Rotary positions: rope_theta and rope_scaling.
void write_rope(GgufFields& f, nlohmann::json& out);

}  // namespace weir::llm
