#include "engines/llm/encoder/bert_shape.h"

#include <algorithm>
#include <cmath>

#include "engines/llm/load/fields.h"
#include "text/model_json.h"

namespace weir::llm {
namespace {

constexpr uint32_t kMaxBertWidth = 1 << 14, kMaxBertVocabulary = 1 << 22, kMaxBertLayers = 256,
                   kMaxBertLength = 1 << 17;

enum class Positions : uint8_t { kFromZero, kBehindPad };
// Field names of config.json.
struct FieldNames {
  const char *hidden = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads",
             *intermediate = "intermediate_size", *act = "hidden_act", *positions = "max_position_embeddings",
             *epsilon = "layer_norm_eps";
};
constexpr FieldNames kDistilFields{"dim", "n_layers", "n_heads", "hidden_dim", "activation"},
    kNomicFields{"n_embd", "n_layer", "n_head", "n_inner", "activation_function", "n_positions", "layer_norm_epsilon"},
    kModernFields{.act = "hidden_activation", .epsilon = "norm_eps"};
constexpr BertNames kDistilNames{"transformer.layer.", "attention.q_lin",   "attention.k_lin",
                                 "attention.v_lin",    "attention.out_lin", "sa_layer_norm",
                                 "ffn.lin1",           "ffn.lin2",          "output_layer_norm"},
    kNomicNames{.layers = "encoder.layers.",
                .out = "attn.out_proj",
                .attention_norm = "norm1",
                .up = "mlp.fc11",
                .down = "mlp.fc2",
                .norm = "norm2",
                .words_norm = "emb_ln",
                .qkv = "attn.Wqkv",
                .gate = "mlp.fc12"},
    kModernNames{.layers = "layers.",
                 .out = "attn.Wo",
                 .attention_norm = "attn_norm",
                 .up = "mlp.Wi",
                 .down = "mlp.Wo",
                 .norm = "mlp_norm",
                 .words = "embeddings.tok_embeddings",
                 .words_norm = "embeddings.norm",
                 .qkv = "attn.Wqkv",
                 .last_norm = "final_norm"};
struct Family {
  std::string_view name, outer;  // "Bert": BertModel, BertForMaskedLM, …
  Positions positions;
  FieldNames fields{};
  BertNames names{};
  uint32_t types = 2;  // where the file does not say
  // Reads what the family has beside; hidden_size is whole heads.
  void (*more)(ConfigFields& f, BertShape& s) = nullptr;
  double usual_epsilon = 1e-12;
};

Rope turning(uint32_t dim, double theta) {
  Rope rope;
  for (uint32_t i = 0; i < dim / 2; ++i) rope.frequencies.push_back(float(std::pow(theta, -2.0 * i / dim)));
  return rope;
}

void refuse_unless(ConfigFields& f, const char* name, bool usual) {
  if (f.flag_or(name, usual) != usual)
    f.fail(name, usual ? "is false, which is not supported" : "is not supported", base::Code::kUnimplemented);
}

void check_turning(ConfigFields& f, const BertShape& s) {
  if (s.head_dim() % 2 != 0) f.fail("architectures", "has heads of an odd size, which cannot turn");
}

void read_nomic(ConfigFields& f, BertShape& s) {
  for (auto name : {"prenorm", "use_rms_norm", "parallel_block", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias",
                    "rotary_emb_interleaved", "causal"})
    refuse_unless(f, name, false);
  if (f.real_or("rotary_emb_fraction", 0, 1, 1) != 1 || f.has("rotary_emb_scale_base"))
    f.fail("rotary_emb_fraction", "is not 1, or heads have a scale", base::Code::kUnimplemented);
  if (f.count_or("num_experts", 0, 1024, 0) > 1 && f.count_or("moe_every_n_layers", 0, 1024, 0) > 0)
    f.fail("num_experts", "is not supported for this architecture", base::Code::kUnimplemented);
  // The factor changes what texts are turned by that are longer than these.
  if (f.has("rotary_scaling_factor"))
    s.positions = std::min(s.positions, f.count_or("max_trained_positions", 1, kMaxBertLength, 2048));
  s.gated = true, s.biased = false;
  s.rope = turning(s.head_dim(), f.real_or("rotary_emb_base", 1.0001, 1e12, 10000));
  check_turning(f, s);
}

// "rope_parameters" of newer files say the base of each kind of layer.
double modern_base(ConfigFields& f, const char* kind, const char* name, double usual) {
  if (f.has("rope_parameters") && f["rope_parameters"].is_object() && f["rope_parameters"].contains(kind)) {
    const auto& inner = f["rope_parameters"][kind];
    const bool plain = inner.is_object() && inner.value("rope_type", nlohmann::json("default")) == "default";
    if (!plain) return f.fail("rope_parameters", "has no rope_type default", base::Code::kUnimplemented), usual;
    if (const auto& theta = inner.find("rope_theta"); theta != inner.end()) {
      if (!theta->is_number() || !(*theta >= 1.0001 && *theta <= 1e12))
        return f.fail("rope_parameters", "has a rope_theta that is out of range"), usual;
      return theta->get<double>();
    }
  }
  return f.real_or(name, 1.0001, 1e12, usual);
}

bool sees_all_in(ConfigFields& f, uint32_t layer, uint32_t every) {
  if (!f.has("layer_types")) return layer % every == 0;
  const auto& types = f["layer_types"];
  if (!types.is_array() || layer >= types.size() ||
      (types[layer] != "full_attention" && types[layer] != "sliding_attention"))
    return f.fail("layer_types", "is not full_attention or sliding_attention for each layer"), true;
  return types[layer] == "full_attention";
}

void read_modern(ConfigFields& f, BertShape& s) {
  for (auto name : {"attention_bias", "mlp_bias", "norm_bias"}) refuse_unless(f, name, false);
  const uint32_t every = f.count_or("global_attn_every_n_layers", 1, kMaxBertLayers, 3);
  const uint32_t window = f.count_or("local_attention", 2, 2 * kMaxBertLength, 128);
  s.gated = s.norms_first = true, s.biased = s.norms_biased = false;
  for (uint32_t i = 0; i < s.layers; ++i) s.reaches.push_back(sees_all_in(f, i, every) ? 0 : window / 2);
  s.rope = turning(s.head_dim(), modern_base(f, "full_attention", "global_rope_theta", 160000));
  s.local_rope = turning(s.head_dim(), modern_base(f, "sliding_attention", "local_rope_theta", 10000));
  check_turning(f, s);
}

constexpr Family kFamilies[] = {
    {"Bert", "bert.", Positions::kFromZero},
    {"Roberta", "roberta.", Positions::kBehindPad},
    {"XLMRoberta", "roberta.", Positions::kBehindPad},
    {"Camembert", "roberta.", Positions::kBehindPad},
    {"DistilBert", "distilbert.", Positions::kFromZero, kDistilFields, kDistilNames, 0},
    {"NomicBert", "bert.", Positions::kFromZero, kNomicFields, kNomicNames, 2, read_nomic},
    {"ModernBert", "model.", Positions::kFromZero, kModernFields, kModernNames, 0, read_modern, 1e-5}};

const Family* family_of(std::string_view architecture) {
  for (const auto& family : kFamilies) {
    if (!architecture.starts_with(family.name)) continue;
    std::string_view rest = architecture.substr(family.name.size());
    if (rest == "Model" || rest == "PreTrainedModel" || rest.starts_with("For")) return &family;
  }
  return nullptr;
}

BertShape::Curve curve_of(ConfigFields& f, const Family& family) {
  const char* field = family.fields.act;
  const bool nomic = family.more == read_nomic;
  const std::string act = f.text_or(field, nomic ? "swiglu" : "gelu");
  if (nomic) {
    if (act != "swiglu") f.fail(field, "is not swiglu", base::Code::kUnimplemented);
    return BertShape::Curve::kSilu;
  }
  if (act == "gelu_new" || act == "gelu_fast" || act == "gelu_pytorch_tanh") return BertShape::Curve::kGeluTanh;
  if (act != "gelu" && act != "gelu_python") f.fail(field, "is no kind of gelu", base::Code::kUnimplemented);
  return BertShape::Curve::kGelu;
}

void refuse_unsupported_bert(ConfigFields& f) {
  if (f.text_or("position_embedding_type", "absolute") != "absolute")
    f.fail("position_embedding_type", "is not absolute", base::Code::kUnimplemented);
  if (f.flag_or("is_decoder", false)) f.fail("is_decoder", "is not supported", base::Code::kUnimplemented);
  if (f.has("quantization_config")) f.fail("quantization_config", "is not supported", base::Code::kUnimplemented);
  if (f.has("embedding_size") && f.has("hidden_size") && f["embedding_size"] != f["hidden_size"])
    f.fail("embedding_size", "is not hidden_size", base::Code::kUnimplemented);
}

void read_bert(ConfigFields& f, const Family& family, BertShape& s) {
  const FieldNames& fields = family.fields;
  s.outer = family.outer, s.names = family.names;
  s.vocabulary = f.count("vocab_size", 1, kMaxBertVocabulary);
  s.hidden = f.count(fields.hidden, 2, kMaxBertWidth);
  s.layers = f.count(fields.layers, 1, kMaxBertLayers);
  s.heads = f.count(fields.heads, 1, 1024);
  s.intermediate = f.count(fields.intermediate, 1, kMaxBertWidth * 8);
  s.positions = f.count(fields.positions, 1, kMaxBertLength);
  s.types = f.count_or("type_vocab_size", 0, 1024, family.types);
  s.epsilon = float(f.real_or(fields.epsilon, 0, 1, family.usual_epsilon));
  s.curve = curve_of(f, family);
  const bool behind_pad = family.positions == Positions::kBehindPad;
  if (f.has("pad_token_id") || behind_pad) s.pad_id = f.count_or("pad_token_id", 0, kMaxBertVocabulary, 1);
  if (behind_pad) s.first_position = *s.pad_id + 1;
}

}  // namespace

EncoderLimits limits_of(const BertShape& shape, uint32_t max_length, uint32_t pack_tokens) {
  return {shape.vocabulary,
          shape.types,
          shape.hidden,
          max_length,
          EncoderLimits::taken(std::max(max_length, pack_tokens)),
          shape.first_position,
          shape.first_position > 0 ? Places::kAmongTokens : Places::kInRow};
}

bool is_bert(std::string_view architecture) { return family_of(architecture) != nullptr; }

base::Result<BertShape> parse_bert_shape(std::string_view config_json) {
  auto parsed = text::parse_model_json(config_json, "config.json");
  if (!parsed) return parsed.error();
  const nlohmann::json& config = *parsed;
  if (!config.is_object()) return base::invalid("config.json is not a JSON object");
  base::Status status;
  ConfigFields f(config, status, "config.json: ");
  const Family* family = nullptr;
  if (f.has("architectures") && f["architectures"].is_array() && f["architectures"].size() == 1 &&
      f["architectures"][0].is_string())
    family = family_of(f["architectures"][0].get<std::string>());
  if (!family) return base::failure(base::Code::kUnimplemented, "config.json: 'architectures' is no kind of BERT");
  refuse_unsupported_bert(f);
  BertShape s;
  read_bert(f, *family, s);
  if (!status.ok()) return status;
  if (s.hidden % s.heads != 0 || s.head_dim() > 1024)
    f.fail(family->fields.heads, std::string("does not divide ") + family->fields.hidden);
  if (s.positions <= s.first_position) f.fail("max_position_embeddings", "leaves no position");
  if (family->more && status.ok()) family->more(f, s);
  if (!status.ok()) return status;
  return s;
}

}  // namespace weir::llm
