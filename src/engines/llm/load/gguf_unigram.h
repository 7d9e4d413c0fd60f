// Tokenizers of encoders in GGUF files that are none of WordPieces: SentencePiece's unigram model (llama.cpp's "t5":
// XLM-RoBERTa), and how texts begin and end with it or with BPE of bytes (RoBERTa, ModernBERT).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/status.h"
#include "engines/llm/load/gguf_vocabulary.h"

namespace weir::llm {

// Adds the parts of tokenizer.json that such a tokenizer has, beside the added tokens. Errors: INVALID_ARGUMENT, naming
// the field.
base::Status write_unigram(const Gguf& gguf, const GgufVocabulary& words, nlohmann::json& out);

// Adds the post-processor: what an encoder puts around a text, and around two.
base::Status write_ends(const Gguf& gguf, const GgufVocabulary& words, nlohmann::json& out);

}  // namespace weir::llm
