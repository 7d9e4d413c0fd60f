#include "engines/llm/load/families.h"

#include <algorithm>
#include <cmath>

#include "base/encoding.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr uint32_t kMostWindow = 1 << 24, kMostLayers = 1024, kMostExperts = 1024, kMostWidth = 1 << 19;

constexpr std::string_view kKnown[] = {kLlama,    kMistral,  kQwen2, kQwen3,      kGemma2,  kGemma3,
                                       kPhi3,     kOlmo2,    kOlmo3, kGranite,    kSmolLm3, kMixtral,
                                       kQwen2Moe, kQwen3Moe, kGemma, kGraniteMoe, kGptOss};
// Their text part is what is known here.
constexpr std::string_view kGemma3Seeing = "Gemma3ForConditionalGeneration";

// Those with norms of what their parts make.
bool is_gemma(const std::string& architecture) { return architecture == kGemma2 || architecture == kGemma3; }

bool is_qwen2(const std::string& architecture) { return architecture == kQwen2 || architecture == kQwen2Moe; }

bool is_mixture(const std::string& architecture) {
  return architecture == kMixtral || architecture == kQwen2Moe || architecture == kQwen3Moe ||
         architecture == kGraniteMoe || architecture == kGptOss;
}

bool is_olmo(const std::string& architecture) { return architecture == kOlmo2 || architecture == kOlmo3; }

// The values that transformers takes where a file says nothing, where they are not those of all families.
std::string_view defaults_of(const std::string& architecture) {
  if (architecture == kGemma)
    return R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
               "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "rms_norm_eps": 1e-6,
               "max_position_embeddings": 8192, "tie_word_embeddings": true})";
  if (architecture == kGptOss)
    return R"({"head_dim": 64, "num_key_value_heads": 8, "rope_theta": 150000.0, "max_position_embeddings": 131072,
               "sliding_window": 128, "attention_bias": true})";
  if (architecture == kGemma2)
    return R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
               "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
               "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
               "sliding_window": 4096, "sliding_window_pattern": 2, "attn_logit_softcapping": 50.0,
               "final_logit_softcapping": 30.0})";
  if (architecture == kGemma3)
    return R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
               "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
               "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
               "sliding_window": 4096, "sliding_window_pattern": 6})";
  if (architecture == kOlmo3) return R"({"sliding_window": 4096, "sliding_window_pattern": 4})";
  if (architecture == kGranite || architecture == kGraniteMoe) return R"({"rms_norm_eps": 1e-6})";
  if (architecture == kSmolLm3)
    return R"({"rms_norm_eps": 1e-6, "rope_theta": 2e6, "max_position_embeddings": 32768, "tie_word_embeddings": true})";
  return "{}";
}

void read_gemma(ConfigFields& f, Shape& s) {
  s.activation = Activation::kGeluTanh;
  s.norms_less_one = f.flag_or("norms_less_one", true);  // ours, for GGUF files, which have them whole
  s.embedding_scale = std::sqrt(float(s.hidden)), s.embedding_rounded = true;
  if (s.architecture == kGemma) return;
  s.norms = Norms::kBoth, s.qk_norm = s.architecture == kGemma3;
  s.attention_scale = float(1 / std::sqrt(f.real_or("query_pre_attn_scalar", 1e-3, 1e6, s.head_dim)));
  s.attention_cap = float(f.real_or("attn_logit_softcapping", 1e-3, 1e6, 0));
  // 0 is no cap, in GGUF files.
  const bool uncapped = f.has("final_logit_softcapping") && f["final_logit_softcapping"] == 0;
  if (!uncapped) s.logits_cap = float(f.real_or("final_logit_softcapping", 1e-3, 1e6, 0));
}

void read_granite(ConfigFields& f, Shape& s) {
  s.embedding_scale = float(f.real_or("embedding_multiplier", 1e-6, 1e6, 1));
  s.attention_scale = float(f.real_or("attention_multiplier", 1e-6, 1e6, 1));
  s.residual_scale = float(f.real_or("residual_multiplier", 1e-6, 1e6, 1));
  s.logits_divisor = float(f.real_or("logits_scaling", 1e-6, 1e6, 1));
}

// no_rope_layers has 1 for each layer that does turn; without it every fourth, or so, does not.
void read_smollm3(ConfigFields& f, Shape& s) {
  s.unturned.assign(s.layers, 0);
  const uint32_t every = f.count_or("no_rope_layer_interval", 1, kMostLayers, 4);
  if (!f.has("no_rope_layers")) {
    for (uint32_t i = 0; i < s.layers; ++i) s.unturned[i] = (i + 1) % every == 0;
    return;
  }
  const auto turned = f.ids_or_none("no_rope_layers", 1);
  if (turned.size() < s.layers) return f.fail("no_rope_layers", "is not one per layer");
  for (uint32_t i = 0; i < s.layers; ++i) s.unturned[i] = turned[i] == 0;
}

void read_gpt_oss(ConfigFields& f, Shape& s) {
  s.sinks = true, s.activation = Activation::kClampedSwiglu;
  if (f.real_or("swiglu_limit", 0, 1e6, 7) != 7) f.fail("swiglu_limit", "is not 7", base::Code::kUnimplemented);
}

void check_activation(ConfigFields& f, const Shape& s) {
  // Files of Gemma 1 say gelu where they mean its approximation, as transformers knows.
  if (s.architecture == kGemma && !f.has("hidden_activation")) return;
  const bool gelu = s.activation == Activation::kGeluTanh;
  const char* name = gelu && (f.has("hidden_activation") || !f.has("hidden_act")) ? "hidden_activation" : "hidden_act";
  const std::string act = f.text_or(name, gelu ? "gelu_pytorch_tanh" : "silu");
  if (gelu ? act != "gelu_pytorch_tanh" : act != "silu" && act != "swish")
    f.fail(name, gelu ? "is not gelu_pytorch_tanh" : "is not silu", base::Code::kUnimplemented);
}

std::vector<uint32_t> windows_by_type(ConfigFields& f, const Shape& shape, uint32_t window) {
  std::vector<uint32_t> out(shape.layers, 0);
  const auto& types = f["layer_types"];
  if (!types.is_array() || types.size() != shape.layers) return f.fail("layer_types", "is not one per layer"), out;
  for (uint32_t i = 0; i < shape.layers; ++i) {
    if (types[i] == "sliding_attention")
      out[i] = window;
    else if (types[i] != "full_attention")
      f.fail("layer_types", "has a type that is not known here", base::Code::kUnimplemented);
  }
  return out;
}

}  // namespace

std::string read_architecture(ConfigFields& f, bool& encoder) {
  std::string found;
  if (f.has("architectures") && f["architectures"].is_array() && f["architectures"].size() == 1 &&
      f["architectures"][0].is_string())
    found = f["architectures"][0].get<std::string>();
  if (found == kGemma3Seeing) return std::string(kGemma3);
  // The model without its output matrix is called LlamaModel; with a classifier's, LlamaForSequenceClassification.
  for (std::string_view head : {"Model", "ForSequenceClassification"})
    if (found.ends_with(head)) encoder = true, found = found.substr(0, found.size() - head.size()) + "ForCausalLM";
  if (std::find(std::begin(kKnown), std::end(kKnown), found) != std::end(kKnown)) return found;
  std::string known;
  for (std::string_view name : kKnown) known += std::string(name) + ", ";
  f.fail("architectures",
         (f.has("architectures") ? "is " + base::presentable(f["architectures"].dump().substr(0, 200), 200)
                                 : std::string("is missing")) +
             "; known here are " + known + std::string(kGemma3Seeing) +
             " (its text), BertModel, RobertaModel, XLMRobertaModel, DistilBertModel, ModernBertModel, and these "
             "ForSequenceClassification, and NomicBertModel",
         base::Code::kUnimplemented);
  return found;
}

json decoder_config(const json& config, const std::string& architecture) {
  json out = json::parse(defaults_of(architecture));
  auto add = [&](const json& fields) {
    for (const auto& [name, value] : fields.items())
      if (!value.is_null()) out[name] = value;
  };
  const bool inside = architecture == kGemma3 && config.contains("text_config") && config["text_config"].is_object();
  if (!inside) return add(config), out;
  for (const char* shared : {"eos_token_id", "tie_word_embeddings", "quantization_config"})
    if (config.contains(shared) && !config[shared].is_null()) out[shared] = config[shared];
  add(config["text_config"]);
  return out;
}

void read_family(ConfigFields& f, Shape& s) {
  const bool bias = f.flag_or("attention_bias", false);
  const bool qwen2 = is_qwen2(s.architecture);
  s.qk_norm = s.architecture == kQwen3 || s.architecture == kQwen3Moe;
  s.qkv_bias = qwen2 ? f.flag_or("qkv_bias", true) : bias;
  s.out_bias = !qwen2 && bias;
  s.mlp_bias = f.flag_or("mlp_bias", false);
  s.fused = s.architecture == kPhi3;
  if (is_gemma(s.architecture) || s.architecture == kGemma) read_gemma(f, s);
  if (s.architecture == kGranite || s.architecture == kGraniteMoe) read_granite(f, s);
  if (s.architecture == kGptOss) read_gpt_oss(f, s);
  if (s.architecture == kSmolLm3) read_smollm3(f, s);
  if (is_olmo(s.architecture)) s.norms = Norms::kOutputs, s.qk_norm = s.qk_norm_whole = true;
  check_activation(f, s);
}

// Layers of Mixtral, granitemoe and gpt-oss are all mixtures; of Qwen's every so-many-th is, but for those that are
// named.
std::optional<ExpertShape> read_experts(ConfigFields& f, const Shape& s) {
  if (!is_mixture(s.architecture)) {
    if (f.has("num_experts") || f.has("num_local_experts"))
      f.fail("num_experts", "is not supported for this architecture", base::Code::kUnimplemented);
    return {};
  }
  const bool all = s.architecture == kMixtral || s.architecture == kGraniteMoe || s.architecture == kGptOss;
  ExpertShape out;
  out.biased = s.architecture == kGptOss;
  out.count = f.count(all ? "num_local_experts" : "num_experts", 1, kMostExperts);
  out.used = f.count("num_experts_per_tok", 1, kMostExperts);
  out.width = all ? s.intermediate : f.count("moe_intermediate_size", 1, kMostWidth);
  if (s.architecture == kQwen2Moe) out.shared_width = f.count("shared_expert_intermediate_size", 1, kMostWidth);
  out.normalised = all || f.flag_or("norm_topk_prob", false);
  out.layers.assign(s.layers, true);
  if (all) return out;
  const uint32_t step = f.count_or("decoder_sparse_step", 1, kMostLayers, 1);
  for (uint32_t i = 0; i < s.layers; ++i) out.layers[i] = (i + 1) % step == 0;
  for (uint32_t i : f.ids_or_none("mlp_only_layers", kMostLayers))
    if (i < s.layers) out.layers[i] = false;
  return out;
}

// Mistral and Phi-3 slide in every layer when they have a window; Qwen from layer max_window_layers on, when it is told
// to; gpt-oss in every other one, Gemma and OLMo 3 in all but every few; SmolLM3 where heads do not turn, when it is
// told to; newer files say it layer by layer.
std::vector<uint32_t> read_windows(ConfigFields& f, const Shape& shape) {
  std::vector<uint32_t> out(shape.layers, 0);
  uint32_t window = f.count_or("sliding_window", 1, kMostWindow, 0);
  if (window == 0 || (shape.architecture == kSmolLm3 && !f.flag_or("use_sliding_window", false))) return out;
  if (f.has("layer_types")) return windows_by_type(f, shape, window);
  if (shape.architecture == kGptOss) {
    for (uint32_t i = 0; i < shape.layers; i += 2) out[i] = window;
    return out;
  }
  if (is_gemma(shape.architecture) || shape.architecture == kOlmo3) {
    const uint32_t pattern = f.count_or("sliding_window_pattern", 1, kMostLayers, 1);
    for (uint32_t i = 0; i < shape.layers; ++i) out[i] = (i + 1) % pattern == 0 ? 0 : window;
    return out;
  }
  if (shape.architecture == kSmolLm3) {
    for (uint32_t i = 0; i < shape.layers; ++i) out[i] = shape.unturned[i] ? window : 0;
    return out;
  }
  const bool qwen = is_qwen(shape.architecture);
  if (qwen && !f.flag_or("use_sliding_window", false)) return out;
  const bool slides = shape.architecture == kMistral || shape.architecture == kMixtral || shape.architecture == kPhi3;
  if (!qwen && !slides) return out;
  uint32_t first = qwen ? f.count_or("max_window_layers", 0, kMostLayers, shape.layers) : 0;
  for (uint32_t i = first; i < shape.layers; ++i) out[i] = window;
  return out;
}

}  // namespace weir::llm
