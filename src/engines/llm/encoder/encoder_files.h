// The files of a sentence-transformers folder beside the model: how states become an embedding.
//
//   modules.json               the steps: Transformer, Pooling, perhaps Normalize, each with the folder of its settings
//   1_Pooling/config.json      pooling_mode_mean_tokens, pooling_mode_cls_token, pooling_mode_lasttoken
//   sentence_bert_config.json  max_seq_length
// https://sbert.net/docs/package_reference/sentence_transformer/models.html
#pragma once

#include <cstdint>
#include <optional>

#include "engines/llm/encoder/encoder.h"
#include "engines/llm/load/files.h"

namespace weir::llm {

struct EncoderFiles {
  bool there = false;  // modules.json is
  std::optional<Pooling> pooling;
  Scale scale = Scale::kAsItIs;
  std::optional<uint32_t> max_length;
};

// Errors: INVALID_ARGUMENT; UNIMPLEMENTED for steps and ways of pooling that are not known here (they would change
// answers).
base::Result<EncoderFiles> read_encoder_files(const Folder& folder);

}  // namespace weir::llm
