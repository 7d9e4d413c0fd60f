#include "engines/llm/load/gguf_families.h"

#include <algorithm>
#include <cmath>

#include "engines/llm/load/families.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr int64_t kMostPatterned = 1024;

constexpr Renamed kGemmaNames[] = {{"post_attention_norm", "post_attention_layernorm"},
                                   {"ffn_norm", "pre_feedforward_layernorm"},
                                   {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Renamed kOlmoNames[] = {{"post_attention_norm", "post_attention_layernorm"},
                                  {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Renamed kGptOssNames[] = {{"attn_sinks", "self_attn.sinks"},
                                    {"post_attention_norm", "post_attention_layernorm"},
                                    {"attn_out", "self_attn.o_proj"}};  // Ollama's
constexpr Renamed kPhi3Names[] = {{"attn_qkv", "self_attn.qkv_proj"}, {"ffn_up", "mlp.gate_up_proj"}};

constexpr Renamed kBertNames[] = {{"attn_q", "attention.self.query"},
                                  {"attn_k", "attention.self.key"},
                                  {"attn_v", "attention.self.value"},
                                  {"attn_output", "attention.output.dense"},
                                  {"attn_output_norm", "attention.output.LayerNorm"},
                                  {"ffn_up", "intermediate.dense"},
                                  {"ffn_down", "output.dense"},
                                  {"layer_output_norm", "output.LayerNorm"}};
constexpr Renamed kBertOutside[] = {{"token_embd", "embeddings.word_embeddings"},
                                    {"position_embd", "embeddings.position_embeddings"},
                                    {"token_types", "embeddings.token_type_embeddings"},
                                    {"token_embd_norm", "embeddings.LayerNorm"},
                                    {"cls", "bert.pooler.dense"},
                                    {"cls.output", "classifier"}};
constexpr Renamed kNomicNames[] = {{"attn_qkv", "attn.Wqkv"},     {"attn_output", "attn.out_proj"},
                                   {"attn_output_norm", "norm1"}, {"ffn_gate", "mlp.fc12"},
                                   {"ffn_up", "mlp.fc11"},        {"ffn_down", "mlp.fc2"},
                                   {"layer_output_norm", "norm2"}};
constexpr Renamed kNomicOutside[] = {{"token_embd", "embeddings.word_embeddings"},
                                     {"token_types", "embeddings.token_type_embeddings"},
                                     {"token_embd_norm", "emb_ln"}};
constexpr Renamed kModernNames[] = {{"attn_norm", "attn_norm"}, {"attn_qkv", "attn.Wqkv"}, {"attn_output", "attn.Wo"},
                                    {"ffn_norm", "mlp_norm"},   {"ffn_up", "mlp.Wi"},      {"ffn_down", "mlp.Wo"}};
constexpr Renamed kModernOutside[] = {{"token_embd", "embeddings.tok_embeddings"},
                                      {"token_embd_norm", "embeddings.norm"},
                                      {"output_norm", "final_norm"},
                                      {"cls", "head.dense"},
                                      {"cls.norm", "head.norm"},
                                      {"cls.output", "classifier"}};

constexpr GgufFamily kGgufFamilies[] = {
    {"llama", kLlama, true},  // with experts Mixtral, with a window Mistral
    {"qwen2", kQwen2},
    {"qwen3", kQwen3},
    {"qwen2moe", kQwen2Moe},
    {"qwen3moe", kQwen3Moe},
    {"gemma2", kGemma2, false, kGemmaNames},
    {"gemma3", kGemma3, false, kGemmaNames},
    {"phi3", kPhi3, false, kPhi3Names},
    {"granite", kGranite, true},
    {"granitemoe", kGraniteMoe, true},
    {"gemma", kGemma},
    {"gpt-oss", kGptOss, false, kGptOssNames},
    {"gptoss", kGptOss, false, kGptOssNames},  // Ollama's
    {"olmo2", kOlmo2, false, kOlmoNames},      // with a window OLMo 3
    {"smollm3", kSmolLm3, true},
    {"bert", "BertModel", false, kBertNames, kBertOutside, "encoder.layer."},  // RoBERTa is called so, too
    {"nomic-bert", "NomicBertModel", false, kNomicNames, kNomicOutside, "encoder.layers."},
    {"modern-bert", "ModernBertModel", false, kModernNames, kModernOutside, "layers."},
};

// attention.sliding_window_pattern: how many layers of which the last sees all, or what each layer does.
void write_pattern(GgufFields& f, json& out) {
  const std::string name = f.key("attention.sliding_window_pattern");
  const auto* list = f.file().get<std::vector<int64_t>>(name);
  if (!list) {
    const auto period = f.whole(name);
    if (period && *period > 0) out["sliding_window_pattern"] = *period;
    if (period && *period <= 0) f.unsupported(name, "is not a number of layers");
    return;
  }
  const auto layers = out["num_hidden_layers"].get<int64_t>();
  if (layers > kMostPatterned || list->size() != uint64_t(layers)) return f.invalid(name, "is not one for each layer");
  out["layer_types"] = json::array();
  for (int64_t slides : *list) out["layer_types"].push_back(slides != 0 ? "sliding_attention" : "full_attention");
}

// Where layers with a window turn by another base than the others, that is a matter of Gemma 3's alone.
void refuse_local_base(GgufFields& f, const json& out) {
  const std::string name = f.key("rope.freq_base_swa");
  if (auto base = f.real(name); base && *base != out["rope_theta"].get<double>())
    f.unsupported(name, "is not that of all layers");
}

// In place of the default that config.json has.
void write_head_dim(json& out) {
  const auto heads = std::max<int64_t>(out["num_attention_heads"].get<int64_t>(), 1);
  if (!out.contains("head_dim")) out["head_dim"] = out["hidden_size"].get<int64_t>() / heads;
}

void write_first_gemma(json& out) {
  write_head_dim(out);
  out["norms_less_one"] = false, out["hidden_activation"] = "gelu_pytorch_tanh";
}

void write_gemma(GgufFields& f, json& out) {
  const bool second = f.architecture == "gemma2";
  const auto heads = std::max<int64_t>(out["num_attention_heads"].get<int64_t>(), 1);
  const auto hidden = out["hidden_size"].get<int64_t>(), layers = out["num_hidden_layers"].get<int64_t>();
  write_head_dim(out);
  // The models of 27B, which llama.cpp knows by their layers, too.
  const bool largest = layers == (second ? 46 : 62);
  out["query_pre_attn_scalar"] = largest ? json(hidden / heads) : out["head_dim"];
  out["norms_less_one"] = false;
  if (auto window = f.whole(f.key("attention.sliding_window")); window && *window > 0)
    out["sliding_window"] = *window;
  else if (!second)
    out["sliding_window_pattern"] = 1;
  write_pattern(f, out);
  if (second) {
    if (auto cap = f.real(f.key("attn_logit_softcapping"))) out["attn_logit_softcapping"] = *cap;
    refuse_local_base(f, out);
  } else {
    auto base = f.real(f.key("rope.freq_base_swa"));
    if (!base) base = f.real(f.key("rope.local.freq_base"));  // Ollama's
    out["rope_local_base_freq"] = base.value_or(10000);
  }
  if (auto cap = f.real(f.key("final_logit_softcapping"))) out["final_logit_softcapping"] = *cap;
}

// Every other layer slides, from the first one on. The model's own code does not round where its scaled frequencies
// begin and end, as others do.
void write_gpt_oss(GgufFields& f, json& out) {
  write_head_dim(out);
  if (auto window = f.whole(f.key("attention.sliding_window")); window && *window > 0) out["sliding_window"] = *window;
  if (!out.contains("rope_scaling")) return;
  if (f.architecture == "gptoss") out["rope_scaling"]["rope_type"] = "yarn";
  out["rope_scaling"]["truncate"] = false;
}

void write_phi3(GgufFields& f, json& out) {
  if (auto window = f.whole(f.key("attention.sliding_window")); window && *window > 0) out["sliding_window"] = *window;
}

void write_granite(GgufFields& f, json& out) {
  const auto heads = std::max<int64_t>(out["num_attention_heads"].get<int64_t>(), 1);
  const int64_t dim = out.value("head_dim", out["hidden_size"].get<int64_t>() / heads);
  auto put = [&](const char* name, std::string_view field, double otherwise) {
    const auto number = f.real(f.key(field));
    out[name] = number && *number != 0 ? *number : otherwise;
  };
  put("embedding_multiplier", "embedding_scale", 1);
  put("residual_multiplier", "residual_scale", 1);
  put("logits_scaling", "logit_scale", 1);
  put("attention_multiplier", "attention.scale", 1 / std::sqrt(double(std::max<int64_t>(dim, 1))));
  const std::string turns = f.key("rope.scaling.finetuned");
  if (const bool* is = f.file().get<bool>(turns); is && !*is) f.unsupported(turns, "is false, which is not supported");
}

void write_olmo(GgufFields& f, json& out) {
  const auto window = f.whole(f.key("attention.sliding_window"));
  if (!window || *window <= 0) return;
  out["architectures"] = json::array({kOlmo3});
  out["sliding_window"] = *window;
  write_pattern(f, out);
  refuse_local_base(f, out);
}

// Mixtral and Mistral are llama to llama.cpp.
void write_llama(GgufFields& f, json& out) {
  if (out.contains("num_local_experts")) out["architectures"] = json::array({kMixtral});
  const auto window = f.whole(f.key("attention.sliding_window"));
  if (!window || *window <= 0) return;
  out["sliding_window"] = *window;
  if (!out.contains("num_local_experts")) out["architectures"] = json::array({kMistral});
}

void write_qwen(GgufFields& f, json& out) {
  if (auto window = f.whole(f.key("attention.sliding_window")); window && *window > 0)
    out["sliding_window"] = *window, out["use_sliding_window"] = true, out["max_window_layers"] = 0;
}

// Fields that change answers, and the architectures that read them.
struct Known {
  std::string_view field, first, second = {};
};
constexpr Known kScales[] = {{"attn_logit_softcapping", "gemma2"},
                             {"final_logit_softcapping", "gemma2", "gemma3"},
                             {"logit_scale", "granite", "granitemoe"},
                             {"embedding_scale", "granite", "granitemoe"},
                             {"residual_scale", "granite", "granitemoe"},
                             {"attention.scale", "granite", "granitemoe"},
                             {"expert_weights_scale", ""}};

}  // namespace

const GgufFamily* gguf_family(std::string_view name) {
  auto found =
      std::find_if(std::begin(kGgufFamilies), std::end(kGgufFamilies), [&](const auto& f) { return f.name == name; });
  return found == std::end(kGgufFamilies) ? nullptr : found;
}

const GgufFamily* gguf_family(const Gguf& gguf) {
  const auto* name = gguf.get<std::string>("general.architecture");
  return name ? gguf_family(*name) : nullptr;
}

std::string known_gguf_families() {
  std::string out;
  for (const auto& f : kGgufFamilies)
    out += std::string(&f == &kGgufFamilies[0]             ? ""
                       : &f == std::end(kGgufFamilies) - 1 ? " and "
                                                           : ", ") +
           std::string(f.name);
  return out;
}

void write_family(GgufFields& f, json& out) {
  for (const auto& [field, first, second] : kScales)
    if (f.architecture != first && f.architecture != second) f.refuse(field);
  if (f.architecture == "llama") return write_llama(f, out);
  if (f.architecture.starts_with("qwen")) return write_qwen(f, out);
  if (f.architecture == "gemma") return write_first_gemma(out);
  if (f.architecture.starts_with("gemma")) return write_gemma(f, out);
  if (f.architecture == "phi3") return write_phi3(f, out);
  if (is_gpt_oss(f.architecture)) return write_gpt_oss(f, out);
  if (f.architecture.starts_with("granite")) return write_granite(f, out);
  if (f.architecture == "olmo2") return write_olmo(f, out);
}

}  // namespace weir::llm
