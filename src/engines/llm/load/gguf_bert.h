// BERT's tokenizer in a GGUF file: WordPieces.
#pragma once

#include <string>

#include "base/status.h"
#include "engines/llm/load/gguf.h"

namespace weir::llm {

// tokenizer.json, of a tokenizer "bert". Errors: INVALID_ARGUMENT, naming the field.
base::Result<std::string> word_pieces_of(const Gguf& gguf);

}  // namespace weir::llm
