#include "engines/llm/encoder/bert_shape.h"

#include <algorithm>

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
             *intermediate = "intermediate_size", *act = "hidden_act";
};
constexpr FieldNames kDistilFields{"dim", "n_layers", "n_heads", "hidden_dim", "activation"};
constexpr BertNames kDistilNames{"transformer.layer.", "attention.q_lin",   "attention.k_lin",
                                 "attention.v_lin",    "attention.out_lin", "sa_layer_norm",
                                 "ffn.lin1",           "ffn.lin2",          "output_layer_norm"};
struct Family {
  std::string_view name, outer;  // "Bert": BertModel, BertForMaskedLM, …
  Positions positions;
  FieldNames fields{};
  BertNames names{};
  uint32_t types = 2;  // where the file does not say
};
constexpr Family kFamilies[] = {{"Bert", "bert.", Positions::kFromZero},
                                {"Roberta", "roberta.", Positions::kBehindPad},
                                {"XLMRoberta", "roberta.", Positions::kBehindPad},
                                {"Camembert", "roberta.", Positions::kBehindPad},
                                {"DistilBert", "distilbert.", Positions::kFromZero, kDistilFields, kDistilNames, 0}};

const Family* family_of(std::string_view architecture) {
  for (const auto& family : kFamilies) {
    if (!architecture.starts_with(family.name)) continue;
    std::string_view rest = architecture.substr(family.name.size());
    if (rest == "Model" || rest == "PreTrainedModel" || rest.starts_with("For")) return &family;
  }
  return nullptr;
}

BertShape::Curve curve_of(ConfigFields& f, const char* field) {
  std::string act = f.text_or(field, "gelu");
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
  s.outer = family->outer, s.names = family->names;
  const FieldNames& fields = family->fields;
  s.vocabulary = f.count("vocab_size", 1, kMaxBertVocabulary);
  s.hidden = f.count(fields.hidden, 2, kMaxBertWidth);
  s.layers = f.count(fields.layers, 1, kMaxBertLayers);
  s.heads = f.count(fields.heads, 1, 1024);
  s.intermediate = f.count(fields.intermediate, 1, kMaxBertWidth * 8);
  s.positions = f.count("max_position_embeddings", 1, kMaxBertLength);
  s.types = f.count_or("type_vocab_size", 0, 1024, family->types);
  s.epsilon = float(f.real_or("layer_norm_eps", 0, 1, 1e-12));
  s.curve = curve_of(f, fields.act);
  const bool behind_pad = family->positions == Positions::kBehindPad;
  if (f.has("pad_token_id") || behind_pad) s.pad_id = f.count_or("pad_token_id", 0, kMaxBertVocabulary, 1);
  if (behind_pad) s.first_position = *s.pad_id + 1;
  if (!status.ok()) return status;
  if (s.hidden % s.heads != 0 || s.head_dim() > 1024)
    f.fail(fields.heads, std::string("does not divide ") + fields.hidden);
  if (s.positions <= s.first_position) f.fail("max_position_embeddings", "leaves no position");
  if (!status.ok()) return status;
  return s;
}

}  // namespace weir::llm
