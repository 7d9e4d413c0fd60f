#include "engines/llm/load/shape.h"

#include <algorithm>

#include "engines/llm/load/families.h"
#include "engines/llm/load/fields.h"
#include "engines/llm/load/rope.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxWidth = 1 << 17, kMaxVocabulary = 1 << 22, kMaxLayers = 1024, kMaxLength = 1 << 24,
                   kMaxHeadDim = 1024;

// How encoders made of these families say that every position sees all others.
bool sees_all(ConfigFields& f) {
  return f.flag_or("use_bidirectional_attention", false) || !f.flag_or("is_causal", true);
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

void check(ConfigFields& f, const Shape& s) {
  if (s.heads % s.kv_heads != 0) f.fail("num_key_value_heads", "does not divide num_attention_heads");
  if (s.heads / s.kv_heads > 24) f.fail("num_key_value_heads", "is more than 24 times below num_attention_heads");
  if (s.head_dim == 0) f.fail("num_attention_heads", "is more than hidden_size");
  if (s.head_dim > kMaxHeadDim) f.fail("head_dim", "is missing, and hidden_size makes heads of more than 1024");
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

void read_counts(ConfigFields& f, Shape& s) {
  s.vocabulary = f.count("vocab_size", 1, kMaxVocabulary);
  s.hidden = f.count("hidden_size", 2, kMaxWidth);
  s.layers = f.count("num_hidden_layers", 1, kMaxLayers);
  s.heads = f.count("num_attention_heads", 1, 4096);
  s.kv_heads = f.count_or("num_key_value_heads", 1, 4096, s.heads);
  s.head_dim = f.count_or("head_dim", 2, kMaxHeadDim, s.hidden / s.heads);
  s.intermediate = f.count("intermediate_size", 1, kMaxWidth * 4);
  s.max_length = f.count_or("max_position_embeddings", 1, kMaxLength, 2048);
}

}  // namespace

base::Result<Shape> parse_shape(std::string_view config_json, uint32_t context) {
  auto parsed = text::parse_model_json(config_json, "config.json");
  if (!parsed) return parsed.error();
  if (!parsed->is_object()) return base::invalid("config.json is not a JSON object");
  base::Status status;
  Shape s;
  ConfigFields outer(*parsed, status, "config.json: ");
  s.architecture = read_architecture(outer, s.encoder);
  if (!status.ok()) return status;
  const json config = decoder_config(*parsed, s.architecture);
  ConfigFields f(config, status, "config.json: ");
  read_counts(f, s);
  s.epsilon = float(f.real_or("rms_norm_eps", 0, 1, is_qwen(s.architecture) ? 1e-6 : 1e-5));
  s.tied = f.flag_or("tie_word_embeddings", false);
  s.eos_ids = f.ids_or_none("eos_token_id", kMaxVocabulary);
  read_family(f, s);
  s.causal = !sees_all(f);
  s.encoder = s.encoder || !s.causal;
  if (!status.ok()) return status;
  s.windows = read_windows(f, s);
  s.vision = vision(f, status);
  s.experts = read_experts(f, s);
  s.quantization = read_quantization(f);
  if (status.ok()) check(f, s);
  if (status.ok()) read_ropes(config, context, s, status);
  if (!status.ok()) return status;
  return s;
}

}  // namespace weir::llm
