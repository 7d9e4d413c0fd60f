#include "engines/llm/load/shape.h"

#include <algorithm>

#include "base/encoding.h"
#include "engines/llm/load/fields.h"
#include "engines/llm/load/rope.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxWidth = 1 << 17, kMaxVocabulary = 1 << 22, kMaxLayers = 1024, kMaxLength = 1 << 24,
                   kMaxExperts = 1024;

constexpr std::string_view kLlama = "LlamaForCausalLM", kMistral = "MistralForCausalLM", kQwen2 = "Qwen2ForCausalLM",
                           kQwen3 = "Qwen3ForCausalLM", kMixtral = "MixtralForCausalLM",
                           kQwen2Moe = "Qwen2MoeForCausalLM", kQwen3Moe = "Qwen3MoeForCausalLM";
constexpr std::string_view kKnown[] = {kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen2Moe, kQwen3Moe};

bool is_qwen(const Shape& s) { return s.architecture.starts_with("Qwen"); }
bool is_qwen2(const Shape& s) { return s.architecture == kQwen2 || s.architecture == kQwen2Moe; }
bool has_experts(const Shape& s) {
  return s.architecture == kMixtral || s.architecture == kQwen2Moe || s.architecture == kQwen3Moe;
}

std::string architecture(ConfigFields& f, bool& encoder) {
  std::string found;
  if (f.has("architectures") && f["architectures"].is_array() && f["architectures"].size() == 1 &&
      f["architectures"][0].is_string())
    found = f["architectures"][0].get<std::string>();
  // The model without its output matrix is called LlamaModel; with a classifier's, LlamaForSequenceClassification.
  for (std::string_view head : {"Model", "ForSequenceClassification"})
    if (found.ends_with(head)) encoder = true, found = found.substr(0, found.size() - head.size()) + "ForCausalLM";
  if (std::find(std::begin(kKnown), std::end(kKnown), found) == std::end(kKnown)) {
    std::string known;
    for (std::string_view name : kKnown) known += std::string(name) + ", ";
    f.fail("architectures",
           (f.has("architectures") ? "is " + base::presentable(f["architectures"].dump().substr(0, 200), 200)
                                   : std::string("is missing")) +
               "; known here are " + known +
               "BertModel, RobertaModel, XLMRobertaModel, DistilBertModel, and these ForSequenceClassification",
           base::Code::kUnimplemented);
  }
  return found;
}

// How encoders made of these families say that every position sees all others.
bool sees_all(ConfigFields& f) {
  return f.flag_or("use_bidirectional_attention", false) || !f.flag_or("is_causal", true);
}

void refuse_what_changes_answers(ConfigFields& f, const Shape& s) {
  std::string act = f.text_or("hidden_act", "silu");
  if (act != "silu" && act != "swish") f.fail("hidden_act", "is not silu", base::Code::kUnimplemented);
  if (f.real_or("partial_rotary_factor", 0, 1, 1) != 1)
    f.fail("partial_rotary_factor", "is not supported", base::Code::kUnimplemented);
  if (!has_experts(s) && (f.has("num_experts") || f.has("num_local_experts")))
    f.fail("num_experts", "is not supported for this architecture", base::Code::kUnimplemented);
}

// Mistral slides in every layer when it has a window; Qwen from layer max_window_layers on, when it is told to; newer
// files say it layer by layer.
std::vector<uint32_t> windows(ConfigFields& f, const Shape& shape) {
  std::vector<uint32_t> out(shape.layers, 0);
  uint32_t window = f.count_or("sliding_window", 1, kMaxLength, 0);
  if (window == 0) return out;
  if (f.has("layer_types")) {
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
  const bool qwen = is_qwen(shape);
  if (qwen && !f.flag_or("use_sliding_window", false)) return out;
  if (!qwen && shape.architecture != kMistral && shape.architecture != kMixtral) return out;
  uint32_t first = qwen ? f.count_or("max_window_layers", 0, kMaxLayers, shape.layers) : 0;
  for (uint32_t i = first; i < shape.layers; ++i) out[i] = window;
  return out;
}

std::optional<VisionShape> vision(ConfigFields& f, base::Status& status) {
  if (!f.has("vision_config")) return {};
  ConfigFields v(f["vision_config"], status, "vision_config.");
  VisionShape out;
  out.image_size = v.count("image_size", 1, 4096);
  out.patch_size = v.count("patch_size", 1, 4096);
  out.hidden = v.count("hidden_size", 2, 1 << 14);
  out.depth = v.count("depth", 0, 256);
  out.heads = v.count("num_heads", 1, 1 << 10);
  out.intermediate = v.count("intermediate_size", 1, 1 << 16);
  out.start_id = f.count("vision_start_token_id", 0, kMaxVocabulary - 1);
  out.pad_id = f.count("image_token_id", 0, kMaxVocabulary - 1);
  out.end_id = f.count("vision_end_token_id", 0, kMaxVocabulary - 1);
  if (out.image_size % out.patch_size != 0) v.fail("patch_size", "does not divide image_size");
  if (out.hidden % (2 * out.heads) != 0) v.fail("num_heads", "does not divide hidden_size into even parts");
  if (out.patches() > 1 << 16) v.fail("patch_size", "makes too many patches");
  return out;
}

// Mixtral's layers are all mixtures; of Qwen's every so-many-th is, but for those that are named.
std::optional<ExpertShape> experts(ConfigFields& f, const Shape& s) {
  if (!has_experts(s)) return {};
  const bool mixtral = s.architecture == kMixtral;
  ExpertShape out;
  out.count = f.count(mixtral ? "num_local_experts" : "num_experts", 1, kMaxExperts);
  out.used = f.count("num_experts_per_tok", 1, kMaxExperts);
  out.width = mixtral ? s.intermediate : f.count("moe_intermediate_size", 1, kMaxWidth * 4);
  if (s.architecture == kQwen2Moe) out.shared_width = f.count("shared_expert_intermediate_size", 1, kMaxWidth * 4);
  out.normalised = mixtral || f.flag_or("norm_topk_prob", false);
  out.layers.assign(s.layers, true);
  if (mixtral) return out;
  const uint32_t step = f.count_or("decoder_sparse_step", 1, kMaxLayers, 1);
  for (uint32_t i = 0; i < s.layers; ++i) out.layers[i] = (i + 1) % step == 0;
  for (uint32_t i : f.ids_or_none("mlp_only_layers", kMaxLayers))
    if (i < s.layers) out.layers[i] = false;
  return out;
}

void check(ConfigFields& f, const Shape& s) {
  if (s.heads % s.kv_heads != 0) f.fail("num_key_value_heads", "does not divide num_attention_heads");
  if (s.heads / s.kv_heads > 24) f.fail("num_key_value_heads", "is more than 24 times below num_attention_heads");
  if (s.head_dim == 0) f.fail("num_attention_heads", "is more than hidden_size");
  if (s.head_dim % 2 != 0) f.fail("head_dim", "is odd");
  if (uint64_t(s.heads) * s.head_dim > kMaxWidth) f.fail("head_dim", "is too large");
  if (s.experts && s.experts->used > s.experts->count) f.fail("num_experts_per_tok", "is more than there are experts");
  if (s.experts && s.mlp_bias) f.fail("mlp_bias", "is not supported with experts", base::Code::kUnimplemented);
  for (uint32_t id : s.eos_ids)
    if (id >= s.vocabulary) f.fail("eos_token_id", "is not below vocab_size");
  if (!s.causal && std::any_of(s.windows.begin(), s.windows.end(), [](uint32_t w) { return w > 0; }))
    f.fail("sliding_window", "is not supported with attention in both directions", base::Code::kUnimplemented);
  if (s.vision && std::max({s.vision->start_id, s.vision->pad_id, s.vision->end_id}) >= s.vocabulary)
    f.fail("image_token_id", "is not below vocab_size");
}

}  // namespace

base::Result<Shape> parse_shape(std::string_view config_json) {
  auto parsed = text::parse_model_json(config_json, "config.json");
  if (!parsed) return parsed.error();
  const json& config = *parsed;
  if (!config.is_object()) return base::invalid("config.json is not a JSON object");
  base::Status status;
  ConfigFields f(config, status, "config.json: ");
  Shape s;
  s.architecture = architecture(f, s.encoder);
  if (!status.ok()) return status;
  refuse_what_changes_answers(f, s);
  s.vocabulary = f.count("vocab_size", 1, kMaxVocabulary);
  s.hidden = f.count("hidden_size", 2, kMaxWidth);
  s.layers = f.count("num_hidden_layers", 1, kMaxLayers);
  s.heads = f.count("num_attention_heads", 1, 4096);
  s.kv_heads = f.count_or("num_key_value_heads", 1, 4096, s.heads);
  s.head_dim = f.count_or("head_dim", 2, 1024, s.hidden / s.heads);
  s.intermediate = f.count("intermediate_size", 1, kMaxWidth * 4);
  s.max_length = f.count_or("max_position_embeddings", 1, kMaxLength, 2048);
  s.epsilon = float(f.real_or("rms_norm_eps", 0, 1, is_qwen(s) ? 1e-6 : 1e-5));
  s.tied = f.flag_or("tie_word_embeddings", false);
  s.qk_norm = s.architecture == kQwen3 || s.architecture == kQwen3Moe;
  bool bias = f.flag_or("attention_bias", false);
  s.qkv_bias = is_qwen2(s) ? f.flag_or("qkv_bias", true) : bias;
  s.out_bias = !is_qwen2(s) && bias;
  s.mlp_bias = f.flag_or("mlp_bias", false);
  s.eos_ids = f.ids_or_none("eos_token_id", kMaxVocabulary);
  s.causal = !sees_all(f);
  s.encoder = s.encoder || !s.causal;
  if (!status.ok()) return status;
  s.windows = windows(f, s);
  s.vision = vision(f, status);
  s.experts = experts(f, s);
  s.quantization = read_quantization(f);
  if (status.ok()) check(f, s);
  if (status.ok()) s.rope = make_rope(config, s.head_dim, s.max_length, status);
  if (!status.ok()) return status;
  return s;
}

}  // namespace weir::llm
