// The small files that a Hugging Face folder would have for what the fields of a GGUF file say, so that both are read,
// and checked, in one place.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "engines/llm/load/gguf_model.h"

namespace weir::llm {

// config.json, of the architectures in gguf_families.h. Errors: INVALID_ARGUMENT, UNIMPLEMENTED, naming the field.
base::Result<std::string> config_of(const Gguf& gguf);

// tokenizer.json, of tokenizers "gpt2" (BPE of bytes, with what tokenizer.ggml.pre says of the words) and "llama"
// (SentencePiece's BPE, whose merges follow from the pieces' scores); of encoders "bert" (WordPieces), "t5"
// (SentencePiece's unigram model) and "gpt2". Errors: the same.
base::Result<std::string> tokenizer_of(const Gguf& gguf);

// tokenizer_config.json: special tokens, chat templates.
base::Result<std::string> tokenizer_config_of(const Gguf& gguf);

struct GgufTexts {
  std::string config, tokenizer, tokenizer_config;
  // An encoder's: as llama.cpp numbers the ways from states to an embedding (0: the file does not say; 1: the mean,
  // 2: the first, 3: the last), and whether its length is made 1.
  struct Embedding {
    int64_t pooling = 0;
    bool normalized = true;
  };
  std::optional<Embedding> embedding;
};
// All of them. Errors name the file, too.
base::Result<GgufTexts> texts_of(const GgufModel& model);

}  // namespace weir::llm
