// Families: the architectures of decoders that are known here, and what each says in its own way.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engines/llm/load/fields.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

inline constexpr std::string_view kLlama = "LlamaForCausalLM", kMistral = "MistralForCausalLM",
                                  kQwen2 = "Qwen2ForCausalLM", kQwen3 = "Qwen3ForCausalLM",
                                  kGemma2 = "Gemma2ForCausalLM", kGemma3 = "Gemma3ForCausalLM",
                                  kPhi3 = "Phi3ForCausalLM", kOlmo2 = "Olmo2ForCausalLM", kOlmo3 = "Olmo3ForCausalLM",
                                  kGranite = "GraniteForCausalLM", kSmolLm3 = "SmolLM3ForCausalLM",
                                  kMixtral = "MixtralForCausalLM", kQwen2Moe = "Qwen2MoeForCausalLM",
                                  kQwen3Moe = "Qwen3MoeForCausalLM", kGemma = "GemmaForCausalLM",
                                  kGraniteMoe = "GraniteMoeForCausalLM", kGptOss = "GptOssForCausalLM";

inline bool is_qwen(std::string_view architecture) { return architecture.starts_with("Qwen"); }

// The family that "architectures" names, as its decoder's name; `encoder` is set where it names the model without its
// output matrix, or with a classifier's. Errors go to `f`: UNIMPLEMENTED.
std::string read_architecture(ConfigFields& f, bool& encoder);

// The decoder's part of config.json: the whole, or "text_config" of a model that also sees, over the defaults of its
// family. Those of Gemma leave out what is usual.
nlohmann::json decoder_config(const nlohmann::json& config, const std::string& architecture);

// The switches of the family, beside the fields that all have. `shape` has its architecture and its counts.
void read_family(ConfigFields& f, Shape& shape);

// The experts of a family of mixtures. Elsewhere fields that speak of experts are refused.
std::optional<ExpertShape> read_experts(ConfigFields& f, const Shape& shape);

// Per layer: how many positions it sees; 0 = all.
std::vector<uint32_t> read_windows(ConfigFields& f, const Shape& shape);

}  // namespace weir::llm
