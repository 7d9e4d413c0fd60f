// BertShape: what config.json says of an encoder of BERT's family (arXiv 1810.04805), RoBERTa (1907.11692) and
// DistilBERT (1910.01108, which has no token types, and other names for all fields and weights) with it: learned
// positions, attention in both directions, norms behind the sums.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engines/llm/encoder/encoder.h"

namespace weir::llm {

// Names that a family gives to the parts of a layer.
struct BertNames {
  std::string_view layers = "encoder.layer.", query = "attention.self.query", key = "attention.self.key",
                   value = "attention.self.value", out = "attention.output.dense",
                   attention_norm = "attention.output.LayerNorm", up = "intermediate.dense", down = "output.dense",
                   norm = "output.LayerNorm";
};

struct BertShape {
  enum class Curve : uint8_t { kGelu, kGeluTanh };
  std::string outer;  // what weights are called before "embeddings" and "encoder" when there is a head: "bert."
  BertNames names;
  uint32_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, intermediate = 0;
  uint32_t positions = 0, types = 0;
  uint32_t first_position = 0;     // RoBERTa counts tokens from behind its pad id, BERT places from 0
  std::optional<uint32_t> pad_id;  // of padding at the end of a row that has no mask
  float epsilon = 1e-12f;
  Curve curve = Curve::kGelu;

  uint32_t max_length() const { return positions - first_position; }
  uint32_t head_dim() const { return hidden / heads; }
};

// Whether the architecture is one of this family.
bool is_bert(std::string_view architecture);

// `max_length` is at most the shape's.
EncoderLimits limits_of(const BertShape& shape, uint32_t max_length, uint32_t pack_tokens);

// Errors: INVALID_ARGUMENT, UNIMPLEMENTED, naming the field.
base::Result<BertShape> parse_bert_shape(std::string_view config_json);

}  // namespace weir::llm
