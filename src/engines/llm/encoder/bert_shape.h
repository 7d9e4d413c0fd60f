// BertShape: what config.json says of an encoder of BERT's family: attention in both directions, layer norms.
//
//   BERT         arXiv 1810.04805: learned positions, norms behind the sums
//   RoBERTa      arXiv 1907.11692: positions count tokens, from behind the pad id
//   DistilBERT   arXiv 1910.01108: no token types, and other names for all fields and weights
//   nomic-bert   arXiv 2402.01613: heads turn by positions, gated MLP (SwiGLU), no biases but those of norms
//   ModernBERT   arXiv 2412.13663: the same with GeGLU, norms before each part and no biases at all; most layers see
//                positions nearby alone, and turn by another base
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engines/llm/encoder/encoder.h"
#include "engines/llm/load/shape.h"

namespace weir::llm {

// Names that a family gives to its weights: those of a layer, and those outside.
struct BertNames {
  std::string_view layers = "encoder.layer.", query = "attention.self.query", key = "attention.self.key",
                   value = "attention.self.value", out = "attention.output.dense",
                   attention_norm = "attention.output.LayerNorm", up = "intermediate.dense", down = "output.dense",
                   norm = "output.LayerNorm";
  std::string_view words = "embeddings.word_embeddings", words_norm = "embeddings.LayerNorm";
  // Empty: it has none. `qkv` is in place of queries, keys and values; without `gate` a gated MLP has gates and ups one
  // after the other in `up`.
  std::string_view qkv = {}, gate = {}, last_norm = {};
};

struct BertShape {
  enum class Curve : uint8_t { kGelu, kGeluTanh, kSilu };
  std::string outer;  // what weights are called before "embeddings" and "encoder" when there is a head: "bert."
  BertNames names;
  uint32_t vocabulary = 0, hidden = 0, layers = 0, heads = 0, intermediate = 0;
  uint32_t positions = 0, types = 0;
  uint32_t first_position = 0;     // RoBERTa counts tokens from behind its pad id, BERT places from 0
  std::optional<uint32_t> pad_id;  // of padding at the end of a row that has no mask
  float epsilon = 1e-12f;
  Curve curve = Curve::kGelu;
  // Newer families differ in these.
  bool gated = false;              // the MLP: curve(gate) * up
  bool biased = true;              // matrices
  bool norms_biased = true;        //
  bool norms_first = false;        // of what attention and the MLP read; the first layer's attention has none
  Rope rope;                       // no frequencies: positions are learned
  std::optional<Rope> local_rope;  // of layers with a reach
  std::vector<uint32_t> reaches;   // per layer: how many positions a position sees to either side; 0: all. Empty: all

  bool turns() const { return !rope.frequencies.empty(); }
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
