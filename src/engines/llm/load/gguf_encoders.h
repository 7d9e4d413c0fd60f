// Encoders in a GGUF file: BERT and RoBERTa (both are called bert, and positions begin at 0), nomic-bert, ModernBERT;
// and the classifiers made of them.
#pragma once

#include <string>

#include "base/status.h"
#include "engines/llm/load/gguf.h"
#include "engines/llm/load/gguf_texts.h"

namespace weir::llm {

bool is_gguf_encoder(const Gguf& gguf);

// config.json. Errors: INVALID_ARGUMENT, UNIMPLEMENTED, naming the field.
base::Result<std::string> encoder_config_of(const Gguf& gguf);

// How states become an embedding, of a file whose configuration was read.
GgufTexts::Embedding embedding_of(const Gguf& gguf);

}  // namespace weir::llm
